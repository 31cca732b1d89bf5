// Starts `allot lsp` and connects it to the YAML documents of the window.
const { window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const settings = workspace.getConfiguration("allotment");
  const command = settings.get("command");
  const documents = { documentSelector: [{ scheme: "file", language: "yaml" }] };
  client = new LanguageClient("allotment", "Allotment", { command, args: ["lsp", ...settings.get("arguments")] }, documents);
  try {
    await client.start();
  } catch (error) {
    window.showErrorMessage(`Allotment can't start "${command}": set allotment.command to its complete path. ${error}`);
  }
};

exports.deactivate = () => client?.stop();
