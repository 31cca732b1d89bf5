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
