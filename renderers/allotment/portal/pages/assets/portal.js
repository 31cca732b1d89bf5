// Improves pages that are useful without scripts: relative times and buttons that copy.
"use strict";

const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];

const make = (tag, fields) => Object.assign(document.createElement(tag), fields);

function describeAge(moment) {
  const seconds = (Date.now() - moment) / 1000;
  const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) || ["second", 1];
  return new Intl.RelativeTimeFormat("en", {numeric: "auto"}).format(-Math.round(seconds / length), unit);
}

function showAges() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const moment = Date.parse(time.dateTime);
    if (moment) {
      time.title ||= time.textContent;
      time.textContent = describeAge(moment);
    }
  }
}

function addCopyButtons() {
  for (const block of document.querySelectorAll(".copy")) {
    const button = make("button", {type: "button", className: "plain", textContent: "Copy"});
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

// The forms write the declaration, the command and the effect of a change, and send nothing.
const HOURS_A_MONTH = 730n;
const SIZES = {Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40};
const NAME = /^[a-z](?:-?[a-z0-9])*$/;
const PLAIN = /^[A-Za-z/][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*$/;
const YAML_WORD = /^(?:y|n|yes|no|on|off|true|false|null)$/i;
const find = id => document.getElementById(id);
const read = field => field.value.trim();

function parseMoney(text) {
  const [whole, part = ""] = text.split(".");
  return BigInt(whole) * 10n ** 9n + BigInt(part.padEnd(9, "0").slice(0, 9));
}

function formatMoney(amount, digits = 2) {
  const unit = 10n ** BigInt(9 - digits);
  const rounded = ((amount < 0n ? -amount : amount) + unit / 2n) / unit;
  const text = `${rounded}`.padStart(digits + 1, "0");
  return `${amount < 0n ? "-" : ""}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

function formatSize(bytes) {
  const unit = ["Ti", "Gi"].find(unit => bytes % SIZES[unit] === 0) || "Mi";
  return `${Math.floor(bytes / SIZES[unit])}${unit}`;
}

function parseSize(text) {
  const match = /^([1-9][0-9]{0,6})(Mi|Gi|Ti)$/.exec(text);
  return match ? Number(match[1]) * SIZES[match[2]] : null;
}

const scalar = text => PLAIN.test(text) && !YAML_WORD.test(text) ? text : JSON.stringify(text);

const joinWords = words => words.map(text => /^[A-Za-z0-9_./:@=+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`).join(" ");

function checkName(name, longest, facts, what, field = "name") {
  const texts = [
    [!name, `Write a name for the ${what}.`],
    [!NAME.test(name), "The name has a-z, 0-9 and single '-', a letter first, and no '-' last."],
    [name.length < 3 || name.length > longest, `The name has 3 to ${longest} characters.`],
    [facts.deviceNames?.includes(name), `${name} is the name of a device on Windows: choose another name.`],
    [facts.names.includes(name), `${name} exists already.`],
  ];
  return texts.filter(([isWrong]) => isWrong).slice(0, 1).map(([, text]) => [text, field]);
}

// Replace the options of a select, and return the problem of the selected one. A choice of the user stays.
function setOptions(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, text, problem]) => make("option", {value, text: problem ? `${text} (${problem})` : text, disabled: !!problem})));
  const same = select.dataset.isChosen && options.find(([value]) => value === before);
  const [value, , problem] = same || options.find(([, , problem]) => !problem) || [""];
  select.value = value;
  return problem ? [[`${value}: ${problem}.`, select.name]] : [];
}

// Return the effect of a cost, and add a problem if the tariff plan refuses it.
function describeCost(facts, cost, offer, problems) {
  const {budget, currency, enforcement, month} = facts;
  const lines = [`${cost > 0n ? "+" : ""}${formatMoney(cost)} ${currency} in a month of 730 hours`];
  facts.added = cost;
  if (budget === null) return lines;
  const limit = parseMoney(budget);
  const compare = (title, before, change, time, isExact) => {
    const rest = limit - before - change;
    lines.push(`${title}: ${formatMoney(before)} → ${formatMoney(before + change)} of ${formatMoney(limit)} ${currency}`);
    if (rest < 0n && cost > 0n) {
      facts.isExceeded = true;
      (enforcement === "Deny" && isExact ? problems : lines).push(`The budget is exceeded by ${formatMoney(-rest)} ${currency} ${time}${enforcement === "Deny" ? "." : ": only a warning."}`);
    }
  };
  compare("Budget", parseMoney(facts.cost), cost, "a month", true);
  if (!month) return lines;
  // The plan needs a usage record of the cluster. A price that changes this month makes another forecast.
  const isExact = month.clusters.includes(offer.cluster) && !offer.changesThisMonth;
  compare(`Forecast of ${month.name}`, parseMoney(month.forecast), cost * BigInt(month.rest[0]) / BigInt(month.rest[1]), `in ${month.name}`, isExact);
  return lines;
}

function setClusters(select, offers, isOffered) {
  setOptions(select, offers.clusters.filter(({name, lifecycle}) => lifecycle !== "Retired" && isOffered(name)).map(({name, label}) => [name, label]));
}

const findSpec = (specs, cluster, name) => specs.find(each => each.cluster === cluster && each.name === name);

function checkCount(facts, field, problems, count = 1) {
  const [used, limit] = facts.quota[field];
  if (used + count > limit) problems.push(`The quota allows ${limit} ${field}, and ${used} are declared.`);
  return `${field[0].toUpperCase()}${field.slice(1)}: ${used} → ${used + count} of ${limit}`;
}

function newFileUrl({newFile, pathField, contentField, maxUrl}, path, text) {
  const url = `${newFile}?${new URLSearchParams({[pathField]: path})}`;
  const whole = `${url}&${new URLSearchParams({[contentField]: text})}`;
  return contentField && whole.length <= maxUrl ? whole : url;
}

function showItems(list, texts) {
  list.replaceChildren(...texts.map(textContent => make("li", {textContent})));
  return texts.length;
}

// Show the problems below their fields, too.
function markFields(fields, problems) {
  for (const field of fields) {
    const id = `${field.name}-problem`;
    find(id)?.remove();
    const textContent = problems.filter(([, name]) => name === field.name).map(([text]) => text).join(" ");
    if (textContent) field.closest(".field").append(make("small", {className: "problem", id, textContent}));
    field.ariaInvalid = textContent ? "true" : null;
    const ids = [`${field.id}-hint`, id].filter(each => find(each)).join(" ");
    ids ? field.setAttribute("aria-describedby", ids) : field.removeAttribute("aria-describedby");
  }
}

// Return whether the change can merge by itself. The added cost is null if only the plan knows it.
function describeMerge({added, currency, isExceeded}, {verdict, costLimit}) {
  const amount = costLimit && formatMoney(parseMoney(costLimit));
  const reason = isExceeded ? "it exceeds the budget" : amount && added > parseMoney(costLimit) ? `it adds ${formatMoney(added)} ${currency} a month, and the limit is ${amount}` : "";
  if (verdict || reason) return verdict || `This change waits for a merge by a person: ${reason}.`;
  return `This change can merge by itself, if its plan is green${amount && added === null ? ` and it adds at most ${amount} ${currency} a month` : ""}.`;
}

// Show the problems, or the result. A problem is a text, or a text and the name of its field.
function showResult(facts, {text, command, effect, isNew, instruction, action, files = [], ...result}, hasInput) {
  const [list, problems] = [find("problems"), result.problems.map(each => [each].flat())];
  list.hidden = !showItems(list, problems.map(([text]) => text)) || !hasInput;
  find("request").hidden = list.hidden || !problems.some(([text]) => /over the quota|quota allow|few free|budget is/.test(text));
  markFields(find("change").elements, hasInput ? problems : []);
  showItems(find("effect"), effect);
  find("result").hidden = problems.length;
  if (problems.length) return;
  const path = result.path || facts.path;
  find("command").textContent = command;
  find("verdict").textContent = describeMerge(facts, facts.actions ? facts.actions[action] : facts);
  find("file").hidden = text === null || files.length;
  find("several").hidden = !files.length;
  find("files").replaceChildren(...files.map(([path, text]) => {
    const item = make("li");
    item.append(make("a", {href: newFileUrl(facts.forge, path, text), textContent: path, rel: "noreferrer"}), make("pre", {tabIndex: 0, textContent: text}));
    return item;
  }));
  find("path").textContent = path;
  find("yaml").textContent = text || "";
  find("file-title").textContent = isNew ? "File" : instruction;
  const link = find("open");
  const verb = isNew ? "Create" : text === null ? "Remove" : "Edit";
  link.textContent = `${verb} the file at ${link.dataset.forge}`;
  find("at-forge").hidden = !isNew && !instruction;
  link.hidden = files.length || find("at-forge").hidden;
  link.href = isNew ? newFileUrl(facts.forge, path, text || "") : facts.forge.pages[verb];
  find("hint").hidden = !isNew || link.hidden || link.href.includes(`${facts.forge.contentField}=`) && facts.forge.contentField;
}

const listSpecs = (facts, offers, cluster) => offers.gpuSpecs.filter(spec => spec.cluster === cluster && facts.sharing.includes(spec.sharing) && facts.quota.gpus[spec.model]);

// Add the reserved units of the tenant to the offers.
function addReserved(offers, reserved) {
  for (const own of reserved) {
    const shared = findSpec(offers.gpuSpecs, own.cluster, own.name);
    shared ? shared.free += own.free : offers.gpuSpecs.push(own);
  }
}

// Return the used GPUs after a change as a fraction.
function addGpus(facts, spec, units, [used, part] = facts.quota.usedGpus[spec.model] || [0, 1]) {
  return [used * spec.gpus[1] + units * spec.gpus[0] * part, part * spec.gpus[1]];
}

const formatFraction = ([top, bottom]) => Math.round(top / bottom * 1000) / 1000;

const describeGpus = (facts, spec, after) => `GPUs ${spec.model}: ${formatFraction(addGpus(facts, spec, 0))} → ${formatFraction(after)} of ${facts.quota.gpus[spec.model] || 0}`;

const describeSpec = spec => `${spec.label}, ${spec.free} free`;

const checkGpus = (facts, spec, [top, bottom]) => top > (facts.quota.gpus[spec.model] || 0) * bottom ? "over the quota" : "";

function checkSpec(facts, spec, units, version) {
  if (spec.price === null) return "not sold yet";
  if (version?.shmSize > spec.memory) return "not enough memory for the app";
  if (spec.free < units) return "too few free units";
  return checkGpus(facts, spec, addGpus(facts, spec, units));
}

// Return the effect of more units, or of fewer if `units` is negative. `extra` is the cost of other parts of the change in a month.
function describeUnits(facts, spec, units, problems, extra = 0n) {
  const price = parseMoney(spec.price) * BigInt(units);
  return [
    `${formatMoney(price, 4).replace(/00$/, "")} ${facts.currency} per hour${units > 0 ? " while it runs" : ""}`, ...describeCost(facts, price * HOURS_A_MONTH + extra, spec, problems),
    describeGpus(facts, spec, addGpus(facts, spec, units)),
  ];
}

// Add a line for each name. In the page itself, many lines would be too large.
function addRows(kind, items, text) {
  const template = find(kind);
  for (const {name, label = name, barrier, variable = ""} of items) {
    const row = template.content.firstElementChild.cloneNode(true);
    Object.assign(row.querySelector("[type=checkbox]"), {name: `use-${name}`, disabled: !!barrier});
    Object.assign(row.querySelector("[type=text]"), {name: `${text}-${name}`, value: variable});
    row.querySelector("span").textContent = barrier ? `${label} (${barrier})` : label;
    template.before(row);
  }
}

const sortByName = mounts => mounts.sort((one, other) => one.name < other.name ? -1 : 1);

function startInstanceForm(form, facts, offers) {
  addRows("storage", facts.storages, "folder");
  addRows("secret", facts.secrets, "variable");
  const fields = form.elements;
  setOptions(fields.app, offers.apps.filter(app => app.versions.length).map(app => [app.name, app.title]));

  const findApp = () => offers.apps.find(app => app.name === fields.app.value);

  function checkVersion(version) {
    if (version.exposures.some(name => !facts.exposure.includes(name))) return "not in your tariff plan";
    return version.exposures.includes("Members") && !facts.canLogIn ? "nobody can log in" : "";
  }

  fields.replicas.addEventListener("input", () => { fields.gpuSpec.dataset.isChosen = "true"; });

  const findCluster = () => offers.clusters.find(each => each.name === fields.cluster.value);
  const findVersion = () => findApp()?.versions.find(each => each.version === fields.version.value);

  function showVersions() {
    const problems = setOptions(fields.version, (findApp()?.versions || []).map(each => [each.version, each.title, checkVersion(each)]));
    const folders = findVersion()?.folders || [];
    find("folders").replaceChildren(...folders.map(folder => new Option(folder.description, folder.path)));
    return problems;
  }

  function showPlace() {
    setClusters(fields.cluster, offers, name => listSpecs(facts, offers, name).length);
    const units = Number(fields.replicas.value) || 1;
    const specs = listSpecs(facts, offers, fields.cluster.value).map(spec => [spec.name, describeSpec(spec), checkSpec(facts, spec, units, findVersion())]);
    const problems = setOptions(fields.gpuSpec, specs);
    const causes = [...new Set(specs.map(([, , cause]) => cause))].join(", ");
    if (!fields.gpuSpec.value) problems.push([`No GPU spec is possible: ${causes || "your tariff plan and quota allow none"}.`, "gpuSpec"]);
    find("ssh-field").hidden = !findCluster()?.ssh;
    for (const {name, cluster} of [...facts.storages, ...facts.secrets]) fields[`use-${name}`].closest(".field").hidden = cluster !== fields.cluster.value;
    return problems;
  }

  // Return the chosen storages or secrets in the cluster, each with its text field.
  function listChosen(items, text) {
    const chosen = items.filter(({name, cluster}) => cluster === fields.cluster.value && fields[`use-${name}`].matches(":checked:enabled"));
    return chosen.map(item => [item, fields[`${text}-${item.name}`]]);
  }

  // Propose a folder of the app for each chosen storage, if possible that of its name. A folder of the app stays.
  function proposeFolders() {
    const folders = (findVersion()?.folders || []).map(each => each.path);
    for (const input of form.querySelectorAll(".field:has([type=checkbox]:not(:checked)) [list]:not([data-is-chosen])")) input.value = "";
    const inputs = listChosen(facts.storages, "folder");
    const stays = ([, input]) => input.dataset.isChosen || folders.includes(input.value);
    const used = inputs.filter(stays).map(([, input]) => read(input));
    for (const [{name}, input] of inputs.filter(each => !stays(each))) {
      const free = folders.filter(path => !used.includes(path));
      input.value = free.find(path => name.includes(path.split("/").pop())) || free[0] || "";
      used.push(input.value);
    }
  }

  function listMounts(replicas, problems) {
    const mounts = [];
    for (const [storage, field] of listChosen(facts.storages, "folder")) {
      const mountPath = read(field);
      problems.push(...checkValidity([field]));
      if (storage.access === "ReadWriteOnce" && replicas > 1) problems.push([`${storage.name} is a storage for one replica: choose 1 replica, or another storage.`, "replicas"]);
      for (const other of mounts) {
        const [outer, inner] = [mountPath, other.mountPath].sort();
        if (outer === inner) problems.push([`Two storages have the folder ${mountPath}.`, field.name]);
        else if (outer && inner.startsWith(`${outer}/`)) problems.push([`${inner} is inside ${outer}, the folder of another storage.`, field.name]);
      }
      mounts.push({name: storage.name, mountPath});
    }
    if (mounts.length > 30) problems.push("An instance mounts at most 30 storages.");
    return sortByName(mounts);
  }

  function listVariables(problems) {
    const variables = [];
    for (const [{name: key, reference}, field] of listChosen(facts.secrets, "variable")) {
      const name = read(field);
      problems.push(...checkValidity([field]));
      if (variables.some(each => each.name === name)) problems.push([`Two secrets have the variable ${name}.`, field.name]);
      variables.push({name, key, text: `      - name: ${scalar(name)}\n        valueFrom:\n          secretKeyRef:\n${reference}`});
    }
    return sortByName(variables);
  }

  // Name the same folders as the rule unsaved-folder.
  function showUnsavedFolders(mounts) {
    const folders = (findVersion()?.folders || []).filter(({path, optional}) => !optional && !mounts.some(mount => `${path}/`.startsWith(`${mount.mountPath}/`)));
    find("unsaved").hidden = !showItems(find("unsaved-folders"), folders.map(({path, description}) => description ? `${path}: ${description}` : path));
    return folders;
  }

  // Return the new storages for the folders, if the user wants them.
  function listNewStorages(name, folders, problems) {
    const specs = offers.storageSpecs.filter(spec => spec.cluster === fields.cluster.value && spec.access !== "Bucket" && spec.price !== null);
    specs.sort((one, other) => one.rank - other.rank);
    setOptions(fields.storageSpec, specs.map(spec => [spec.name, spec.label]));
    if (!name || !fields.createStorages.checked || !folders.length) return [];
    const size = parseSize(read(fields.size));
    const spec = specs.find(each => each.name === fields.storageSpec.value);
    if (!spec) problems.push(["No storage spec is for sale.", "storageSpec"]);
    else if (size === null) problems.push(["Write a size of each storage, such as 50Gi.", "size"]);
    if (!spec || size === null) return [];
    return folders.map(({path, name: folder}) => {
      const storage = `${name}-${folder}`;
      problems.push(...checkName(storage, 32, {...facts, names: facts.storages.map(each => each.name)}, "storage", "createStorages"));
      return {name: storage, mountPath: path, size, spec};
    });
  }

  function build() {
    const name = read(fields.name);
    const replicas = Number(fields.replicas.value);
    const problems = [...checkName(name, 24, facts, "instance"), ...showVersions(), ...showPlace(), ...checkValidity([fields.replicas]), ...facts.barriers];
    const cluster = findCluster();
    if (cluster && !cluster.public && findVersion()?.exposures.includes("Public")) problems.push([`${cluster.name} allows no Public ports: choose another app or cluster.`, "cluster"]);
    if (!fields.version.value) problems.push([facts.versionProblem, "app"]);
    proposeFolders();
    const mounts = listMounts(replicas, problems);
    const variables = listVariables(problems);
    const created = listNewStorages(name, showUnsavedFolders(mounts), problems);
    const hasSsh = fields.ssh.checked && !find("ssh-field").hidden;
    const spec = findSpec(offers.gpuSpecs, fields.cluster.value, fields.gpuSpec.value);
    const effect = [...facts.notes];
    if (spec && fields.replicas.checkValidity() && spec.price !== null) {
      effect.push(...describeUnits(facts, spec, replicas, problems, created.reduce((sum, each) => sum + storageCost(each.spec, each.size), 0n)));
      if (created.length) {
        const {spec: storageSpec, size} = created[0];
        effect.push(checkSize(facts, storageSpec, created.length * size, 0, problems, size), checkCount(facts, "storages", problems, created.length));
      }
    }
    if (created.some(each => each.spec.access === "ReadWriteOnce") && replicas > 1) problems.push(["The new storages are for one replica: choose 1 replica, or another storage spec.", "replicas"]);
    if (hasSsh) effect.push(...facts.sshNotes);
    effect.push(checkCount(facts, "instances", problems));
    const lines = [
      ...facts.header, `  name: ${scalar(name)}`, "spec:", `  cluster: ${scalar(fields.cluster.value)}`, `  gpuSpec: ${scalar(fields.gpuSpec.value)}`,
      "  app:", `    name: ${scalar(fields.app.value)}`, `    version: ${scalar(fields.version.value)}`,
      ...(variables.length ? ["  container:", "    env:"] : []), ...variables.map(each => each.text),
      ...(replicas > 1 ? [`  replicas: ${replicas}`] : []), ...(hasSsh ? ["  access:", "    - SSH"] : []),
      ...(mounts.length + created.length ? ["  storages:"] : []),
      ...sortByName([...mounts, ...created]).flatMap(mount => [`    - name: ${scalar(mount.name)}`, `      mountPath: ${scalar(mount.mountPath)}`]),
    ];
    const words = [
      "allot", "instance", "create", `${facts.tenant}/${name}`, "--cluster", fields.cluster.value, "--gpu-spec", fields.gpuSpec.value,
      "--app", `${fields.app.value}:${fields.version.value}`, ...(replicas > 1 ? ["--replicas", `${replicas}`] : []), ...(hasSsh ? ["--access", "SSH"] : []),
      ...variables.flatMap(each => ["--secret", `${each.name}=${each.key}`]), ...mounts.flatMap(mount => ["--storage", `${mount.name}:${mount.mountPath}`]),
      ...(created.length ? ["--storage-spec", created[0].spec.name] : []), ...created.flatMap(each => ["--new-storage", `${each.name}:${formatSize(each.size)}:${each.mountPath}`]), "--pr",
    ];
    const [folder, header] = [`tenants/${facts.tenant}`, facts.header.map(line => line.replace("GPUInstance", "GPUStorage"))];
    const [path, text] = [`${folder}/instances/${name}.yaml`, `${lines.join("\n")}\n`];
    const files = created.map(each => [`${folder}/storages/${each.name}.yaml`, writeStorage(header, each.name, each.spec, formatSize(each.size))]);
    return {problems, effect, path, text, files: files.length ? [...files, [path, text]] : [], command: joinWords(words), isNew: true};
  }
  return build;
}

function writeStorage(header, name, spec, size, preparation = []) {
  return [...header, `  name: ${scalar(name)}`, "spec:", `  cluster: ${scalar(spec.cluster)}`, `  storageSpec: ${scalar(spec.name)}`, `  size: ${size}`, ...preparation, ""].join("\n");
}

// Return the lines of a source; null if the text has none of the formats.
function describeSource(formats, text) {
  const url = text.replace(new RegExp(formats.huggingFace), (_, model, revision = "main") => `https://huggingface.co/${model}/resolve/${revision}/`);
  for (const [kind, format] of formats.patterns) {
    const {groups} = new RegExp(format).exec(url) || {};
    if (groups) return ["  prepare:", "    source:", `      ${kind}:`, ...Object.keys(groups).filter(key => groups[key]).map(key => `        ${key}: ${scalar(groups[key])}`)];
  }
  return null;
}

function startStorageForm(form, facts, offers) {
  const fields = form.elements;

  function build() {
    setClusters(fields.cluster, offers, name => offers.storageSpecs.some(spec => spec.cluster === name));
    const cluster = fields.cluster.value;
    setOptions(fields.storageSpec, offers.storageSpecs.filter(spec => spec.cluster === cluster).map(spec => [spec.name, spec.label, spec.price === null ? "not sold yet" : ""]));
    const name = read(fields.name);
    const text = read(fields.size);
    const size = parseSize(text);
    const spec = findSpec(offers.storageSpecs, cluster, fields.storageSpec.value);
    const isBucket = find("source-field").hidden = spec?.access === "Bucket";
    const source = isBucket ? "" : read(fields.source);
    const preparation = source ? describeSource(facts.sources, source) : [];
    const problems = checkName(name, 32, facts, "storage");
    const {sizes, own, formatProblem} = facts.sources;
    const least = sizes[`${cluster}/${source}`];
    if (!preparation) problems.push([formatProblem, "source"]);
    else if (!least && new RegExp(own).test(source)) problems.push([`You have no ${source} in ${cluster}.`, "source"]);
    if (size !== null && size < least) problems.push([`The source has ${formatSize(least)}: write this size or more.`, "size"]);
    const effect = [...facts.notes];
    if (!spec) problems.push(["No storage spec is for sale.", "storageSpec"]);
    else if (size === null) problems.push(["Write a size such as 50Gi.", "size"]);
    else effect.push(...describeSize(facts, spec, size, 0, problems));
    effect.push(checkCount(facts, "storages", problems));
    const words = ["allot", "storage", "create", `${facts.tenant}/${name}`, "--cluster", cluster, "--storage-spec", spec?.name, "--size", text, ...(source ? ["--source", source] : []), "--pr"];
    return {problems, effect, path: `tenants/${facts.tenant}/storages/${name}.yaml`, text: writeStorage(facts.header, name, spec || {}, text, preparation || []), command: joinWords(words), isNew: true};
  }
  return build;
}

// Return the effect of a storage that grows.
function describeSize(facts, spec, size, before, problems) {
  const line = checkSize(facts, spec, size, before, problems);
  return [...describeCost(facts, storageCost(spec, size - before), spec, problems), line];
}

// Return the cost of a size in a month.
const storageCost = (spec, size) => spec.price === null ? 0n : parseMoney(spec.price) * BigInt(Math.round(size / 2 ** 20)) / 1024n;

// Return the declared size before and after a change, and add its problems.
function checkSize(facts, spec, size, before, problems, one = size) {
  if (one < spec.minSize || one > spec.maxSize) problems.push([`${spec.name} has sizes from ${formatSize(spec.minSize)} to ${formatSize(spec.maxSize)}.`, "size"]);
  if (size - before > spec.free) problems.push([`Only ${formatSize(spec.free)} of ${spec.name} is free in ${spec.cluster}.`, "size"]);
  const [used, limit] = facts.quota.storage;
  if (used - before + size > limit) problems.push([`The quota allows ${formatSize(limit)} of storage, and ${formatSize(used)} is declared.`, "size"]);
  return `Storage: ${formatSize(used)} → ${formatSize(used - before + size)} of ${formatSize(limit)}`;
}

function startGrowForm(form, facts, offers) {
  return () => {
    const text = read(form.elements.size);
    const size = parseSize(text);
    const [problems, effect] = [[], []];
    const spec = findSpec(offers.storageSpecs, facts.cluster, facts.storageSpec);
    if (size === null) problems.push(["Write a size such as 200Gi.", "size"]);
    else if (size <= facts.size) problems.push([facts.shrinkProblem, "size"]);
    else if (spec) effect.push(...describeSize(facts, spec, size, facts.size, problems));
    return {problems, effect, text: `  size: ${text}`, command: `allot storage grow ${facts.tenant}/${facts.name} ${text} --pr`};
  };
}

function startResizeForm(form, facts, offers) {
  const fields = form.elements;
  const specs = listSpecs(facts, offers, facts.cluster);
  const old = findSpec(offers.gpuSpecs, facts.cluster, facts.gpuSpec);
  fields.gpuSpec.append(...specs.map(spec => new Option(describeSpec(spec), spec.name)));
  fields.gpuSpec.value = facts.gpuSpec;
  fields.replicas.value = facts.replicas;
  return () => {
    const replicas = Number(fields.replicas.value);
    const spec = specs.find(each => each.name === fields.gpuSpec.value);
    const [held, isSame] = [facts.state === "Running" ? facts.replicas : 0, fields.gpuSpec.value === facts.gpuSpec];
    const effect = isSame ? [] : [...facts.actions.resize.notes];
    const problems = checkValidity([fields.replicas]);
    if (!spec) problems.push(["Choose a GPU spec.", "gpuSpec"]);
    else if (isSame && replicas === facts.replicas) problems.push([facts.resizeProblem, "gpuSpec"]);
    else if (spec.price === null || !old || old.price === null) effect.push("The plan shows the cost.");
    else if (held && !problems.length) {
      const units = isSame ? replicas - held : replicas;
      const rest = addGpus(facts, old, -held);
      const gpus = addGpus(facts, spec, replicas, spec.model === old.model ? rest : undefined);
      const problem = units > spec.free ? "too few free units" : checkGpus(facts, spec, gpus);
      if (problem) problems.push([`${spec.name}: ${problem}.`, "gpuSpec"]);
      const extra = isSame ? 0n : -parseMoney(old.price) * BigInt(held) * HOURS_A_MONTH;
      effect.push(...describeCost(facts, parseMoney(spec.price) * BigInt(units) * HOURS_A_MONTH + extra, spec, problems), describeGpus(facts, spec, gpus));
      if (spec.model !== old.model) effect.push(describeGpus(facts, old, rest));
    }
    if (replicas > 1 && facts.singleMounts.length) problems.push([`${facts.singleMounts[0]} is a storage for one replica.`, "replicas"]);
    return {problems, effect, text: `  gpuSpec: ${fields.gpuSpec.value}\n  replicas: ${replicas}`, command: `allot set instance/${facts.tenant}/${facts.name} gpuSpec=${fields.gpuSpec.value} replicas=${replicas} --pr`};
  };
}

function startStateForm(form, facts, offers) {
  const isStart = facts.state !== "Running";
  const [state, verb] = isStart ? ["Running", "start"] : ["Stopped", "stop"];
  const spec = findSpec(offers.gpuSpecs, facts.cluster, facts.gpuSpec);
  return () => {
    const problems = [...facts.barriers];
    const effect = [...facts.actions.state.notes];
    const problem = isStart && spec ? checkSpec(facts, spec, facts.replicas) : "";
    if (problem) problems.push(`${spec.name}: ${problem}.`);
    if (!spec || spec.price === null) effect.push(`${facts.gpuSpec} is not for sale: the plan shows the effect.`);
    else if (facts.isActive) effect.push(...describeUnits(facts, spec, isStart ? facts.replicas : -facts.replicas, problems));
    if (isStart && spec) effect.push(`Free units of ${spec.name}: ${spec.free}`);
    return {problems, effect, text: `  state: ${state}`, command: `allot instance ${verb} ${facts.tenant}/${facts.name} --pr`};
  };
}

function startMemberForm(form, facts) {
  const fields = form.elements;
  return () => {
    const keys = ["name", "role", "login", "subject"];
    const user = Object.fromEntries(keys.map(key => [key, read(fields[key])]));
    const problems = [...checkName(user.name, 32, facts, "person"), ...facts.barriers, ...checkValidity([fields.login, fields.subject])];
    const effect = user.subject ? [] : [facts.noSubjectNote];
    const words = ["allot", "member", "add", facts.tenant, user.name, ...keys.slice(1).flatMap(key => user[key] ? [`--${key}`, user[key]] : []), "--pr"];
    const entry = keys.filter(key => user[key]).map((key, at) => `    ${at ? " " : "-"} ${key}: ${scalar(user[key])}`);
    const text = [...facts.header, ...entry].join("\n");
    return {problems, effect, text: facts.isNew ? `${text}\n` : text, command: joinWords(words), isNew: facts.isNew};
  };
}

function checkValidity(fields) {
  return fields.filter(field => !field.checkValidity() || field.required && !read(field)).map(field => [`${field.labels[0].textContent.trim()}: ${read(field) ? "this is not" : "write"} ${field.title || "a value"}.`, field.name]);
}

// Return the effect of the removal of an instance or a storage.
function describeDeletion(facts, offers) {
  const [unit, volume] = [findSpec(offers.gpuSpecs, facts.cluster, facts.gpuSpec), findSpec(offers.storageSpecs, facts.cluster, facts.storageSpec)];
  const units = facts.state === "Running" && facts.isActive ? -facts.replicas : 0;
  if (volume) return [...describeSize(facts, volume, 0, facts.size, []), checkCount(facts, "storages", [], -1)];
  return unit?.price ? [...describeUnits(facts, unit, units, []), checkCount(facts, "instances", [], -1)] : ["The plan shows the cost."];
}

// A form with several changes of a resource. `{field}` in the texts of a change stands for the value of a field.
function startActionForm(form, facts, offers) {
  const builds = {};
  return () => {
    const name = form.elements.action?.value || Object.keys(facts.actions)[0];
    for (const part of form.querySelectorAll("[data-action]")) part.hidden = part.dataset.action !== name;
    const {form: kind, variants, instruction, cost} = facts.actions[name];
    if (cost) facts.added = parseMoney(cost);
    if (kind) return {...(builds[name] ||= FORMS[kind](form, facts, offers))(), instruction, action: name};
    const fields = [...form.querySelectorAll(`[data-action="${name}"] [data-field]`)];
    const values = Object.fromEntries(fields.map(field => [field.dataset.field, read(field)]));
    const action = {...facts.actions[name], ...variants[fields.find(each => each.options)?.value]};
    const problems = [...action.barriers, ...checkValidity(fields)];
    if (values.name) problems.push(...checkName(values.name, action.longest, {...facts, names: action.names}, "file", `${name}-name`));
    const fillIn = (text, quote = String) => text.replace(/\{(\w+)\}/g, (_, field) => quote(values[field], field));
    const {field: number, limit, isSize, gpuSpec, text} = action.minimum || {};
    const amount = (isSize ? parseSize : Number)(values[number]);
    const spec = gpuSpec && findSpec(offers.gpuSpecs, ...gpuSpec);
    if (values[number] > "0" && (spec ? amount <= spec.free && !checkGpus(facts, spec, addGpus(facts, spec, amount)) : !(amount > limit))) problems.push([text, `${name}-${number}`]);
    const command = joinWords(action.command.map(word => fillIn(word)));
    const [field, pattern, warning] = action.warning || [];
    const notes = field && !new RegExp(`^(?:${pattern})$`).test(values[field]) ? [...action.notes, warning] : action.notes;
    const effect = notes.map(note => fillIn(note));
    if (name === "delete" && !action.text) effect.push(...describeDeletion(facts, offers));
    return {problems, effect, path: fillIn(action.path), text: action.text ? fillIn(action.text, (text, name) => name === "amount" ? text : scalar(text)) : null, command, isNew: !!action.path, instruction: fillIn(action.instruction), action: name};
  };
}

const FORMS = {action: startActionForm, instance: startInstanceForm, storage: startStorageForm, grow: startGrowForm, resize: startResizeForm, state: startStateForm, member: startMemberForm};

async function startForm() {
  const form = find("change");
  if (!form) return;
  const facts = JSON.parse(find("facts").textContent);
  let offers;
  if (form.dataset.offers) {
    if (location.protocol === "file:") {
      find("without-scripts").prepend("The form needs HTTP: open this page with allot portal serve.");
      return;
    }
    const answer = await fetch(form.dataset.offers);
    if (!answer.ok) return;
    offers = await answer.json();
    facts.currency = offers.currency;
    addReserved(offers, facts.reserved);
  }
  const build = FORMS[form.dataset.form](form, facts, offers);
  const show = hasInput => showResult(Object.assign(facts, {added: null, isExceeded: false}), build(), hasInput);
  form.addEventListener("input", event => { event.target.dataset.isChosen = "true"; show(true); });
  form.addEventListener("submit", event => { event.preventDefault(); show(true); });
  form.hidden = !form.elements.length;
  find("without-scripts").hidden = true;
  show(form.hidden);
}

startForm();
