// Starts `allot lsp` and connects it to the YAML documents of the window.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = workspace.getConfiguration("allotment").get("command");
  const documents = { documentSelector: [{ scheme: "file", language: "yaml" }] };
  client = new LanguageClient("allotment", "Allotment", { command, args: ["lsp"] }, documents);
  return client.start();
};

exports.deactivate = () => client?.stop();
