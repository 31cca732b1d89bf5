// Improves pages that are useful without scripts: relative times and buttons that copy.
"use strict";

const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];

function describeAge(moment) {
  const seconds = (Date.now() - moment) / 1000;
  const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) || ["second", 1];
  return new Intl.RelativeTimeFormat("en", {numeric: "auto"}).format(-Math.round(seconds / length), unit);
}

function showAges() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = Date.parse(time.dateTime);
    if (!Number.isNaN(moment)) {
      time.title = time.title || time.textContent;
      time.textContent = describeAge(moment);
    }
  }
}

function addCopyButtons() {
  for (const block of document.querySelectorAll(".copy")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.append(button);
  }
}

showAges();
if (navigator.clipboard) addCopyButtons();
setInterval(showAges, 60000);

// Shows the current page once it has changed on the server, except while somebody fills in a form.
const readTag = async cache => (await fetch(location.pathname, {cache})).headers.get("ETag");

async function refresh() {
  if (document.hidden || document.querySelector("[data-is-chosen]")) return;
  const tag = await readTag("force-cache");
  if (tag !== await readTag("no-cache")) location.reload();
}

if (location.protocol.startsWith("http")) setInterval(() => refresh().catch(() => null), 60000);

// The forms. They write the declaration, the command and the effect of a change, and send nothing.
const ONE = 10n ** 9n;
const HOURS_A_MONTH = 730n;
const GIB = 2 ** 30;
const SIZES = {Mi: 2 ** 20, Gi: GIB, Ti: 2 ** 40};
const NAME = /^[a-z](?:-?[a-z0-9])*$/;
const PLAIN = /^[A-Za-z/][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*$/;
const YAML_WORDS = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"].flatMap(word => [word, word[0].toUpperCase() + word.slice(1), word.toUpperCase()]);
const find = id => document.getElementById(id);
const readJson = id => JSON.parse(find(id).textContent);

function parseMoney(text) {
  const [whole, part = ""] = text.split(".");
  return BigInt(whole) * ONE + BigInt(part.padEnd(9, "0").slice(0, 9));
}

function formatMoney(amount, digits = 2) {
  const unit = 10n ** BigInt(9 - digits);
  const rounded = ((amount < 0n ? -amount : amount) + unit / 2n) / unit;
  const text = rounded.toString().padStart(digits + 1, "0");
  return `${amount < 0n ? "-" : ""}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

function formatHourly(amount) {
  return formatMoney(amount, 4).replace(/00$/, "");
}

function formatSize(bytes) {
  const unit = ["Ti", "Gi", "Mi"].find(unit => bytes % SIZES[unit] === 0) || "Mi";
  return `${Math.floor(bytes / SIZES[unit])}${unit}`;
}

function parseSize(text) {
  const match = /^([1-9][0-9]{0,6})(Mi|Gi|Ti)$/.exec(text);
  return match ? Number(match[1]) * SIZES[match[2]] : null;
}

function scalar(text) {
  return PLAIN.test(text) && !YAML_WORDS.includes(text) ? text : JSON.stringify(text);
}

function shellWord(text) {
  return /^[A-Za-z0-9_./:@=+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function checkName(name, longest, facts, what) {
  if (!name) return [`Write a name for the ${what}.`];
  if (!NAME.test(name)) return ["The name has a-z, 0-9 and single '-', a letter first, and no '-' last."];
  if (name.length < 3 || name.length > longest) return [`The name has 3 to ${longest} characters.`];
  if (facts.deviceNames?.includes(name)) return [`${name} is the name of a device on Windows: choose another name.`];
  return facts.names.includes(name) ? [`${name} exists already.`] : [];
}

function describeNames(facts) {
  return facts.hasAllNames ? [] : ["The tenant has too many files to compare their names: check that no file has this name."];
}

function addOption(select, value, text, problem = "") {
  const option = new Option(problem ? `${text} (${problem})` : text, value);
  option.disabled = Boolean(problem);
  select.add(option);
}

// Replace the options of a select, and return the problem of the selected one. A choice of the user stays, even if it has
// become impossible. The default is the first possible option.
function setOptions(select, options) {
  const before = select.value;
  select.replaceChildren();
  for (const option of options) addOption(select, ...option);
  const possible = options.filter(([, , problem]) => !problem);
  const same = (select.dataset.isChosen ? options : possible).find(([value]) => value === before);
  const [value, , problem] = same || possible[0] || [""];
  select.value = value;
  return problem ? [`${value}: ${problem}.`] : [];
}

class Budget {
  constructor(facts, currency) {
    this.facts = facts;
    this.currency = currency;
  }

  // Return the effect of the cost of an offer, and add a problem if the tariff plan refuses it.
  describe(cost, offer, problems) {
    const {budget, enforcement, month} = this.facts;
    const lines = [`${formatMoney(cost)} ${this.currency} in a month of 730 hours`];
    if (budget === null) return lines;
    const limit = parseMoney(budget);
    const compare = (title, before, change, time, isExact) => {
      const rest = limit - before - change;
      lines.push(`${title}: ${formatMoney(before)} → ${formatMoney(before + change)} of ${formatMoney(limit)} ${this.currency}`);
      if (rest < 0n && cost > 0n) (enforcement === "Deny" && isExact ? problems : lines).push(`The budget is exceeded by ${formatMoney(-rest)} ${this.currency} ${time}.`);
    };
    compare("Budget", parseMoney(this.facts.cost), cost, "a month", true);
    if (!month) return lines;
    // Without a usage record of the cluster, the plan doesn't compare. A price that changes this month makes another forecast.
    const isExact = month.clusters.includes(offer.cluster) && !offer.changesThisMonth;
    compare(`Forecast of ${month.name}`, parseMoney(month.forecast), cost * BigInt(month.rest[0]) / BigInt(month.rest[1]), `in ${month.name}`, isExact);
    return lines;
  }
}

function checkCount(facts, field, problems, count = 1) {
  const [used, limit] = facts.quota[field];
  if (used + count > limit) problems.push(`The quota allows ${limit} ${field}, and ${used} are declared.`);
  return `${field[0].toUpperCase()}${field.slice(1)}: ${used} → ${used + count} of ${limit}`;
}

function newFileUrl(forge, path, text) {
  const fields = new URLSearchParams({[forge.pathField]: path});
  const url = `${forge.newFile}?${fields}`;
  if (!forge.contentField) return url;
  fields.set(forge.contentField, text);
  const whole = `${forge.newFile}?${fields}`;
  return whole.length <= forge.maxUrl ? whole : url;
}

function showItems(list, texts) {
  list.replaceChildren(...texts.map(textContent => Object.assign(document.createElement("li"), {textContent})));
  return texts.length;
}

// Show the problems of the input, or the result: its effect, file and command. A form without input shows no problems.
function showResult(facts, result, hasInput) {
  const problems = find("problems");
  problems.hidden = !showItems(problems, result.problems) || !hasInput;
  showItems(find("effect"), result.effect);
  find("result").hidden = Boolean(result.problems.length);
  if (result.problems.length) return;
  find("command").textContent = result.command;
  find("file").hidden = result.text === null;
  find("path").textContent = result.path;
  find("yaml").textContent = result.text || "";
  find("file-title").textContent = result.isNew ? "File" : "Or set these fields below the existing spec of";
  const link = find("open");
  link.textContent = `${result.isNew ? "Create" : result.text === null ? "Remove" : "Edit"} the file at ${link.dataset.forge}`;
  link.hidden = find("at-forge").hidden = result.isNew && result.text === null; // only the command writes the file
  link.href = result.isNew ? newFileUrl(facts.forge, result.path, result.text || "") : facts.forge.editor;
  find("hint").hidden = !result.isNew || link.hidden || link.href.includes(`${facts.forge.contentField}=`) && Boolean(facts.forge.contentField);
}

function listSpecs(facts, offers, cluster) {
  return offers.gpuSpecs.filter(spec => spec.cluster === cluster && facts.sharing.includes(spec.sharing) && facts.quota.gpus[spec.model]);
}

// Add the units that are reserved for the tenant to the offers for everybody.
function addReserved(offers, reserved) {
  for (const own of reserved) {
    const shared = offers.gpuSpecs.find(each => each.cluster === own.cluster && each.name === own.name);
    if (shared) shared.free += own.free;
    else offers.gpuSpecs.push(own);
  }
}

// Return the used GPUs of a model after a change as a fraction.
function addGpus(facts, spec, units) {
  const [used, part] = facts.quota.usedGpus[spec.model] || [0, 1];
  return [used * spec.gpus[1] + units * spec.gpus[0] * part, part * spec.gpus[1]];
}

function formatFraction([top, bottom]) {
  return String(Math.round(top / bottom * 1000) / 1000);
}

function describeSpec(spec, currency) {
  return `${spec.name}: ${spec.text}, ${spec.gpuMemory}, ${spec.price === null ? "–" : formatHourly(parseMoney(spec.price))} ${currency} per hour, ${spec.free} free`;
}

function checkSpec(facts, spec, units, version) {
  if (spec.price === null) return "not sold yet";
  if (version?.shmSize > spec.memory) return "not enough memory for the app";
  if (spec.free < units) return "no free unit";
  const [top, bottom] = addGpus(facts, spec, units);
  return top > (facts.quota.gpus[spec.model] || 0) * bottom ? "over the quota" : "";
}

// Return the effect of more units on the price, the budget and the quota. `units` is negative if they are released. `extra` is
// the cost of other parts of the change in a month.
function describeUnits(facts, budget, spec, units, problems, extra = 0n) {
  const price = parseMoney(spec.price) * BigInt(units);
  return [
    `${formatHourly(price)} ${budget.currency} per hour${units > 0 ? " while it runs" : ""}`, ...budget.describe(price * HOURS_A_MONTH + extra, spec, problems),
    `GPUs ${spec.model}: ${formatFraction(facts.quota.usedGpus[spec.model] || [0, 1])} → ${formatFraction(addGpus(facts, spec, units))} of ${facts.quota.gpus[spec.model] || 0}`,
  ];
}

// Add a line for each storage. In the page itself, the lines of many storages would be too large.
function addStorages(storages) {
  const template = find("storage");
  for (const {name} of storages) {
    const row = template.content.firstElementChild.cloneNode(true);
    row.dataset.storage = name;
    row.querySelector("[type=checkbox]").name = `use-${name}`;
    row.querySelector("[type=text]").name = `folder-${name}`;
    row.querySelector("span").textContent = name;
    template.before(row);
  }
}

function startInstanceForm(form, facts, offers) {
  addStorages(facts.storages);
  const fields = form.elements;
  const budget = new Budget(facts, offers.currency);
  setOptions(fields.app, offers.apps.filter(app => app.versions.length).map(app => [app.name, app.title]));

  function findApp() {
    return offers.apps.find(app => app.name === fields.app.value);
  }

  function checkVersion(version) {
    if (version.exposures.some(name => !facts.exposure.includes(name))) return "not in your tariff plan";
    return version.exposures.includes("Members") && !facts.canLogIn ? "nobody can log in" : "";
  }

  fields.replicas.addEventListener("input", () => { fields.gpuSpec.dataset.isChosen = "true"; });

  function findVersion() {
    return findApp()?.versions.find(each => each.version === fields.version.value);
  }

  function showVersions() {
    const problems = setOptions(fields.version, (findApp()?.versions || []).map(each => [each.version, each.version, checkVersion(each)]));
    const folders = findVersion()?.folders || [];
    find("folders").replaceChildren(...folders.map(folder => new Option(folder.description, folder.path)));
    return problems;
  }

  function showPlace() {
    const clusters = offers.clusters.filter(each => each.lifecycle !== "Retired" && listSpecs(facts, offers, each.name).length);
    setOptions(fields.cluster, clusters.map(each => [each.name, each.title === each.name ? each.name : `${each.title} (${each.name})`]));
    const units = Number(fields.replicas.value) || 1;
    const problems = setOptions(fields.gpuSpec, listSpecs(facts, offers, fields.cluster.value).map(spec => [spec.name, describeSpec(spec, offers.currency), checkSpec(facts, spec, units, findVersion())]));
    form.querySelector("#ssh-field").hidden = !offers.clusters.some(each => each.name === fields.cluster.value && each.ssh);
    for (const row of form.querySelectorAll("[data-storage]")) {
      const storage = facts.storages.find(each => each.name === row.dataset.storage);
      const barrier = storage.access === "Bucket" ? "a bucket is no folder" : storage.access === "ReadWriteOnce" ? storage.barrier : "";
      row.hidden = storage.cluster !== fields.cluster.value;
      row.querySelector("[type=checkbox]").disabled = Boolean(barrier);
      row.querySelector("span").textContent = barrier ? `${storage.name} (${barrier})` : storage.name;
    }
    return problems;
  }

  // Propose a folder of the app for each chosen storage, until the user writes another.
  function proposeFolders() {
    const folders = (findVersion()?.folders || []).map(each => each.path);
    const inputs = [...form.querySelectorAll("[data-storage]:not([hidden]):has(:checked:enabled) [type=text]")];
    const used = inputs.filter(input => input.dataset.isChosen).map(input => input.value.trim());
    for (const input of inputs.filter(input => !input.dataset.isChosen)) {
      input.value = folders.find(path => !used.includes(path)) || "";
      used.push(input.value);
    }
  }

  function checkFolder(path, storage) {
    const {pattern, maxLength, systemPaths} = facts.mount;
    if (!new RegExp(`^(?:${pattern})$`).test(path) || /\/\.{1,2}(?:\/|$)/.test(path)) return [`Write the folder of ${storage} in the container, such as /workspace/data.`];
    if (path.length > maxLength) return [`The folder of ${storage} has at most ${maxLength} characters.`];
    return systemPaths.some(each => `${path}/`.startsWith(`${each}/`)) ? [`${path} belongs to the system: choose a folder below /workspace, for example.`] : [];
  }

  function listMounts(replicas, problems) {
    const mounts = [];
    for (const row of form.querySelectorAll("[data-storage]")) {
      if (row.hidden || !row.querySelector(":checked:enabled")) continue;
      const mountPath = row.querySelector("[type=text]").value.trim();
      const storage = facts.storages.find(each => each.name === row.dataset.storage);
      problems.push(...checkFolder(mountPath, storage.name));
      if (storage.access === "ReadWriteOnce" && replicas > 1) problems.push(`${storage.name} is a storage for one replica: choose 1 replica, or another storage.`);
      for (const other of mounts) {
        const [outer, inner] = [mountPath, other.mountPath].sort();
        if (outer === inner) problems.push(`Two storages have the folder ${mountPath}.`);
        else if (inner.startsWith(`${outer}/`)) problems.push(`${inner} is inside ${outer}, the folder of another storage.`);
      }
      mounts.push({name: storage.name, mountPath});
    }
    if (mounts.length > 30) problems.push("An instance mounts at most 30 storages.");
    return mounts.sort((one, other) => one.name < other.name ? -1 : 1);
  }

  // Name the folders of the app that are at or below no mount, as the rule unsaved-folder does.
  function showUnsavedFolders(mounts) {
    const folders = (findVersion()?.folders || []).filter(({path, optional}) => !optional && !mounts.some(mount => `${path}/`.startsWith(`${mount.mountPath}/`)));
    find("unsaved").hidden = !showItems(find("unsaved-folders"), folders.map(({path, description}) => description ? `${path}: ${description}` : path));
    return folders;
  }

  // Return the new storages for the folders, if the user wants them. Each has the name of the instance and of its folder.
  function listNewStorages(name, folders, problems) {
    const specs = offers.storageSpecs.filter(spec => spec.cluster === fields.cluster.value && spec.access !== "Bucket" && spec.price !== null);
    setOptions(fields.storageSpec, specs.map(spec => [spec.name, `${spec.name}: ${spec.access}, ${spec.price} ${offers.currency} per GiB and month`]));
    if (!name || !fields.createStorages.checked || !folders.length) return [];
    const size = parseSize(fields.size.value.trim());
    const spec = specs.find(each => each.name === fields.storageSpec.value);
    if (!spec) problems.push("No storage spec is for sale.");
    else if (size === null) problems.push("Write a size of each storage, such as 50Gi.");
    if (!spec || size === null) return [];
    return folders.map(({path}) => {
      const storage = `${name}-${path.split("/").pop().toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
      problems.push(...checkName(storage, 32, {...facts, names: facts.storages.map(each => each.name)}, "storage"));
      return {name: storage, mountPath: path, size, spec};
    });
  }

  function build() {
    const name = fields.name.value.trim();
    const replicas = Number(fields.replicas.value);
    const problems = [...checkName(name, 24, facts, "instance"), ...showVersions(), ...showPlace()];
    if (!Number.isInteger(replicas) || replicas < 1 || replicas > 100) problems.push("An instance has 1 to 100 replicas.");
    if (!facts.isActive) problems.push("The tenant is not Active, so it can't run an instance.");
    const cluster = offers.clusters.find(each => each.name === fields.cluster.value);
    if (cluster && !cluster.public && findVersion()?.exposures.includes("Public")) problems.push(`${cluster.name} allows no Public ports: choose another app or cluster.`);
    if (!fields.version.value) problems.push(facts.canLogIn ? "No version of this app is possible in your tariff plan." : "Nobody could log in to this app: first add a member with a subject.");
    proposeFolders();
    const mounts = listMounts(replicas, problems);
    const created = listNewStorages(name, showUnsavedFolders(mounts), problems);
    const hasSsh = fields.ssh.checked && !form.querySelector("#ssh-field").hidden;
    const spec = offers.gpuSpecs.find(each => each.cluster === fields.cluster.value && each.name === fields.gpuSpec.value);
    const effect = describeNames(facts);
    if (!spec) {
      problems.push("No GPU spec of your tariff plan and quota has enough free units.");
    } else if (Number.isInteger(replicas) && replicas >= 1 && spec.price !== null) {
      effect.push(...describeUnits(facts, budget, spec, replicas, problems, created.reduce((sum, each) => sum + storageCost(each.spec, each.size), 0n)));
      if (created.length) {
        const {spec: storageSpec, size} = created[0];
        effect.push(checkSize(facts, storageSpec, created.length * size, 0, problems, size), checkCount(facts, "storages", problems, created.length));
        effect.push("The command creates all files in one pull request. Without a terminal, first create the storages with New storage, and then choose them here.");
      }
    }
    if (created.some(each => each.spec.access === "ReadWriteOnce") && replicas > 1) problems.push("The new storages are for one replica: choose 1 replica, or another storage spec.");
    if (hasSsh && !facts.hasSshKeys) effect.push("No Admin or Member of the tenant has an SSH key yet: add sshKeys to a user in members.yaml.");
    effect.push(checkCount(facts, "instances", problems));
    const lines = [
      ...facts.header, `  name: ${scalar(name)}`, "spec:", `  cluster: ${scalar(fields.cluster.value)}`, `  gpuSpec: ${scalar(fields.gpuSpec.value)}`,
      "  app:", `    name: ${scalar(fields.app.value)}`, `    version: ${scalar(fields.version.value)}`,
      ...(replicas > 1 ? [`  replicas: ${replicas}`] : []), ...(hasSsh ? ["  access:", "    - SSH"] : []),
      ...(mounts.length ? ["  storages:"] : []),
      ...mounts.flatMap(mount => [`    - name: ${scalar(mount.name)}`, `      mountPath: ${scalar(mount.mountPath)}`]),
    ];
    const words = [
      "allot", "instance", "create", `${facts.tenant}/${name}`, "--cluster", fields.cluster.value, "--gpu-spec", fields.gpuSpec.value,
      "--app", `${fields.app.value}:${fields.version.value}`, ...(replicas > 1 ? ["--replicas", String(replicas)] : []), ...(hasSsh ? ["--access", "SSH"] : []),
      ...mounts.flatMap(mount => ["--storage", `${mount.name}:${mount.mountPath}`]),
      ...(created.length ? ["--storage-spec", created[0].spec.name] : []), ...created.flatMap(each => ["--new-storage", `${each.name}:${formatSize(each.size)}:${each.mountPath}`]), "--pr",
    ];
    return {problems, effect, path: `tenants/${facts.tenant}/instances/${name}.yaml`, text: created.length ? null : `${lines.join("\n")}\n`, command: words.map(shellWord).join(" "), isNew: true};
  }
  return build;
}

function startStorageForm(form, facts, offers) {
  const fields = form.elements;
  const budget = new Budget(facts, offers.currency);

  function showChoices() {
    const clusters = offers.clusters.filter(each => each.lifecycle !== "Retired" && offers.storageSpecs.some(spec => spec.cluster === each.name));
    setOptions(fields.cluster, clusters.map(each => [each.name, each.title === each.name ? each.name : `${each.title} (${each.name})`]));
    setOptions(fields.storageSpec, offers.storageSpecs.filter(spec => spec.cluster === fields.cluster.value).map(spec => [spec.name, `${spec.name}: ${spec.access}, ${spec.price === null ? "–" : spec.price} ${offers.currency} per GiB and month`, spec.price === null ? "not sold yet" : ""]));
  }

  function build() {
    showChoices();
    const name = fields.name.value.trim();
    const text = fields.size.value.trim();
    const size = parseSize(text);
    const source = fields.source.value.trim();
    const isSource = /^(?:(?:hf:[^/ ]+\/[^/ ]+\/|https:\/\/)[^ #]+#sha256=[0-9a-f]{64}|(?:storage|snapshot):[a-z0-9/-]+|s3:https:\/\/[^ ]+|image:[^ ]+@sha256:[0-9a-f]{64})$/.test(source);
    const problems = checkName(name, 32, facts, "storage");
    if (source && !isSource) problems.push("Write the source in a form below the field, with its hash.");
    const spec = offers.storageSpecs.find(each => each.cluster === fields.cluster.value && each.name === fields.storageSpec.value);
    const effect = describeNames(facts);
    if (!spec) problems.push("No storage spec is for sale.");
    else if (size === null) problems.push("Write a size such as 50Gi.");
    else effect.push(...describeSize(facts, budget, spec, size, 0, problems));
    effect.push(checkCount(facts, "storages", problems));
    const lines = [...facts.header, `  name: ${scalar(name)}`, "spec:", `  cluster: ${scalar(fields.cluster.value)}`, `  storageSpec: ${scalar(fields.storageSpec.value)}`, `  size: ${text}`];
    const words = ["allot", "storage", "create", `${facts.tenant}/${name}`, "--cluster", fields.cluster.value, "--storage-spec", fields.storageSpec.value, "--size", text, ...(source ? ["--source", source] : []), "--pr"];
    return {problems, effect, path: `tenants/${facts.tenant}/storages/${name}.yaml`, text: source ? null : `${lines.join("\n")}\n`, command: words.map(shellWord).join(" "), isNew: true};
  }
  return build;
}

// Return the effect of a storage that grows from one size to another.
function describeSize(facts, budget, spec, size, before, problems) {
  const line = checkSize(facts, spec, size, before, problems);
  return [...budget.describe(storageCost(spec, size - before), spec, problems), line];
}

// Return the cost of a size in a month.
function storageCost(spec, size) {
  return spec.price === null ? 0n : parseMoney(spec.price) * BigInt(Math.round(size / 2 ** 20)) / 1024n;
}

// Return the declared size before and after a change, and add the problems of the size. `one` is the size of each storage.
function checkSize(facts, spec, size, before, problems, one = size) {
  if (one < spec.minSize || one > spec.maxSize) problems.push(`${spec.name} has sizes from ${formatSize(spec.minSize)} to ${formatSize(spec.maxSize)}.`);
  if (size - before > spec.free) problems.push(`Only ${formatSize(spec.free)} of ${spec.name} is free in ${spec.cluster}.`);
  const [used, limit] = facts.quota.storage;
  if (used - before + size > limit) problems.push(`The quota allows ${formatSize(limit)} of storage, and ${formatSize(used)} is declared.`);
  return `Storage: ${formatSize(used)} → ${formatSize(used - before + size)} of ${formatSize(limit)}`;
}

function startGrowForm(form, facts, offers) {
  const budget = new Budget(facts, offers.currency);
  return () => {
    const text = form.elements.size.value.trim();
    const size = parseSize(text);
    const problems = [];
    const effect = [];
    const spec = offers.storageSpecs.find(each => each.cluster === facts.cluster && each.name === facts.storageSpec);
    if (size === null) problems.push("Write a size such as 200Gi.");
    else if (size <= facts.size) problems.push(`A storage never shrinks: write more than ${formatSize(facts.size)}.`);
    else if (spec) effect.push(...describeSize(facts, budget, spec, size, facts.size, problems));
    if (facts.copy && size > facts.copy[1]) problems.push(`${facts.copy[0]} copies this storage, so it can't be smaller: first grow ${facts.copy[0]}.`);
    return {problems, effect, path: facts.path, text: `spec:\n  size: ${text}`, command: `allot storage grow ${facts.tenant}/${facts.name} ${text} --pr`, isNew: false};
  };
}

function startResizeForm(form, facts, offers) {
  const fields = form.elements;
  const budget = new Budget(facts, offers.currency);
  const specs = listSpecs(facts, offers, facts.cluster);
  const old = offers.gpuSpecs.find(each => each.cluster === facts.cluster && each.name === facts.gpuSpec);
  fields.gpuSpec.append(...specs.map(spec => new Option(describeSpec(spec, offers.currency), spec.name)));
  fields.gpuSpec.value = facts.gpuSpec;
  fields.replicas.value = facts.replicas;
  return () => {
    const replicas = Number(fields.replicas.value);
    const spec = specs.find(each => each.name === fields.gpuSpec.value);
    const [held, isSame] = [facts.state === "Running" ? facts.replicas : 0, fields.gpuSpec.value === facts.gpuSpec];
    const effect = ["The instance restarts. Its own disk is erased, and its storages stay."];
    const problems = [];
    if (!spec) problems.push("Choose a GPU spec.");
    else if (!Number.isInteger(replicas) || replicas < 1 || replicas > 100) problems.push("An instance has 1 to 100 replicas.");
    else if (isSame && replicas === facts.replicas) problems.push("Choose another GPU spec or another number of replicas.");
    else if (spec.price === null || !old || old.price === null) effect.push("The plan shows the cost.");
    else if (held) {
      const units = isSame ? replicas - held : replicas;
      if (units > spec.free) problems.push(`${spec.name}: no free unit.`);
      const extra = isSame ? 0n : -parseMoney(old.price) * BigInt(held) * HOURS_A_MONTH;
      effect.push(...budget.describe(parseMoney(spec.price) * BigInt(units) * HOURS_A_MONTH + extra, spec, problems));
    }
    if (replicas > 1 && facts.singleMounts.length) problems.push(`${facts.singleMounts[0]} is a storage for one replica.`);
    return {problems, effect, path: facts.path, text: `spec:\n  gpuSpec: ${fields.gpuSpec.value}\n  replicas: ${replicas}`, command: `allot set instance/${facts.tenant}/${facts.name} gpuSpec=${fields.gpuSpec.value} replicas=${replicas} --pr`, isNew: false};
  };
}

function startStateForm(form, facts, offers) {
  const isStart = facts.state !== "Running";
  const [state, verb] = isStart ? ["Running", "start"] : ["Stopped", "stop"];
  const budget = new Budget(facts, offers.currency);
  const spec = offers.gpuSpecs.find(each => each.cluster === facts.cluster && each.name === facts.gpuSpec);
  return () => {
    const problems = [...facts.barriers];
    const effect = [isStart ? "It takes its units again, and costs money while it runs." : "It releases its units, and costs nothing. Its own disk is erased, and its storages stay."];
    if (isStart && !facts.isActive) problems.push("The tenant is not Active, so it can't run an instance.");
    const problem = isStart && spec ? checkSpec(facts, spec, facts.replicas) : "";
    if (problem) problems.push(`${spec.name}: ${problem}.`);
    if (!spec || spec.price === null) effect.push(`${facts.gpuSpec} is not for sale: the plan shows the effect.`);
    else if (facts.isActive) effect.push(...describeUnits(facts, budget, spec, isStart ? facts.replicas : -facts.replicas, problems));
    if (isStart && spec) effect.push(`Free units of ${spec.name}: ${spec.free}`);
    return {problems, effect, path: facts.path, text: `spec:\n  state: ${state}`, command: `allot instance ${verb} ${facts.tenant}/${facts.name} --pr`, isNew: false};
  };
}

function startMemberForm(form, facts) {
  const fields = form.elements;
  return () => {
    const user = {name: fields.name.value.trim(), role: fields.role.value, login: fields.login.value.trim(), subject: fields.subject.value.trim()};
    const problems = checkName(user.name, 32, facts, "person");
    if (user.login && !/^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,38}[A-Za-z0-9_])?(?:#[1-9][0-9]{0,17})?$/.test(user.login)) problems.push("The login is that of the forge, such as jo-k or jo-k#4711.");
    if (user.subject && !/^[A-Za-z0-9][A-Za-z0-9._:|-]{0,99}$/.test(user.subject)) problems.push("The subject is the claim `sub` of the person's ID token.");
    if (facts.names.length >= facts.most) problems.push(`The file has ${facts.most} users, which is the limit.`);
    const effect = user.subject ? [] : ["Without a subject, this person can open instances only as a member of a group of the tenant."];
    const words = ["allot", "member", "add", facts.tenant, user.name, "--role", user.role, ...(user.login ? ["--login", user.login] : []), ...(user.subject ? ["--subject", user.subject] : []), "--pr"];
    const entry = ["name", "role", "login", "subject"].filter(field => user[field]).map((field, at) => `    ${at ? " " : "-"} ${field}: ${scalar(user[field])}`);
    const text = [...facts.header, "spec:", "  users:", ...entry].join("\n");
    const isNew = Boolean(facts.header.length);
    return {problems, effect, path: facts.path, text: isNew ? `${text}\n` : text, command: words.map(shellWord).join(" "), isNew};
  };
}

// A form with several changes of a resource. `{field}` in the texts of a change stands for the value of a field.
function startActionForm(form, facts, offers) {
  const builds = {};
  return () => {
    const name = form.elements.action?.value || Object.keys(facts.actions)[0];
    for (const part of form.querySelectorAll("[data-action]")) part.hidden = part.dataset.action !== name;
    const action = facts.actions[name];
    if (action.form) return (builds[name] ||= FORMS[action.form](form, facts, offers))();
    const fields = [...form.querySelectorAll(`[data-action="${name}"] [data-field]`)];
    const values = Object.fromEntries(fields.map(field => [field.dataset.field, field.value.trim()]));
    const problems = fields.filter(field => !field.value.trim() || !field.checkValidity()).map(field => `${field.labels[0].textContent}: ${field.title || "write a value"}.`);
    if (values.name) problems.push(...checkName(values.name, action.longest, {...facts, names: action.names}, "file"));
    const fillIn = (text, quote) => text.replace(/\{(\w+)\}/g, (_, field) => quote(values[field]));
    const command = action.command.map(word => shellWord(fillIn(word, String))).join(" ");
    return {problems, effect: action.notes, path: fillIn(action.path, String) || facts.path, text: action.text ? fillIn(action.text, value => /^[0-9]+$/.test(value) ? value : scalar(value)) : null, command, isNew: Boolean(action.path)};
  };
}

const FORMS = {action: startActionForm, instance: startInstanceForm, storage: startStorageForm, grow: startGrowForm, resize: startResizeForm, state: startStateForm, member: startMemberForm};

async function startForm() {
  const form = find("change");
  if (!form) return;
  const facts = readJson("facts");
  let offers = null;
  if (form.dataset.offers) {
    if (location.protocol === "file:") {
      find("without-scripts").prepend("The form needs HTTP: open this page with allot portal serve.");
      return;
    }
    const answer = await fetch(form.dataset.offers);
    if (!answer.ok) return;
    offers = await answer.json();
    addReserved(offers, facts.reserved);
  }
  const build = FORMS[form.dataset.form](form, facts, offers);
  const show = hasInput => showResult(facts, build(), hasInput);
  form.addEventListener("input", event => { event.target.dataset.isChosen = "true"; show(true); });
  form.addEventListener("submit", event => { event.preventDefault(); show(true); });
  form.hidden = !form.elements.length;
  find("without-scripts").hidden = true;
  show(form.hidden);
}

startForm();
