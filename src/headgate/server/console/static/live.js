// What a page can do beyond being read: stay current, be steered by keys, copy commands.
//
// The page itself is the only source of HTML. When the server says that something changed, the page
// is fetched again and every element that is marked `data-live` is put in anew. So there is one
// rendering of everything, and text from outside is never turned into HTML here.

const REST_MS = 1500; // between two fetches, however much happens
const body = document.body;
const parser = new DOMParser();
let paused = sessionStorage.getItem("paused") === "yes";
let due = false;
let fetching = false;
let last = 0;

// Staying current

function listen() {
  const events = new EventSource("/live");
  for (const name of ["flow", "change", "redrive", "replay", "message"]) {
    events.addEventListener(name, () => { due = true; soon(); });
  }
  events.onopen = () => state("live");
  events.onerror = () => state("reconnecting");
}

function soon() {
  if (!due || fetching || paused || document.hidden) return;
  const wait = Math.max(0, last + REST_MS - Date.now());
  fetching = true;
  setTimeout(refresh, wait);
}

async function refresh() {
  if (paused) {
    fetching = false;
    return;
  }
  due = false;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    patch(parser.parseFromString(await answer.text(), "text/html"));
    state("live");
  } catch {
    state("reconnecting");
  }
  last = Date.now();
  fetching = false;
  soon();
}

function patch(fresh) {
  for (const old of document.querySelectorAll("[data-live][id]")) {
    const made = fresh.getElementById(old.id);
    // Nobody loses what they are typing or pointing at.
    if (!made || old.contains(document.activeElement) && document.activeElement !== body) continue;
    if (made.isEqualNode(old.pristine ?? old)) continue;
    const kept = made.cloneNode(true);
    for (const open of old.querySelectorAll("details[open][id]")) {
      made.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute("open", "");
    }
    made.pristine = kept;
    old.replaceWith(made);
    ready(made);
  }
  tick();
}

function state(word) {
  const place = document.querySelector("#made");
  if (!place) return;
  let said = document.querySelector(".live-state");
  if (!said) {
    said = document.createElement("span");
    said.className = "live-state";
    const toggle = document.createElement("button");
    toggle.type = "button";
    toggle.className = "plain";
    toggle.addEventListener("click", () => pause(!paused));
    said.append(document.createElement("span"), " ", toggle);
    place.after(said);
  }
  said.firstChild.textContent = paused ? "paused" : word;
  said.lastChild.textContent = paused ? "Go on" : "Pause";
}

function pause(wanted) {
  paused = wanted;
  sessionStorage.setItem("paused", paused ? "yes" : "no");
  state("live");
  due = due || !paused;
  soon();
}

// Times grow older

function tick() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const text = ago((now - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}

function ago(seconds) {
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
}

function span(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = units.findIndex(([size]) => seconds >= size);
  const [size, unit] = units[at < 0 ? 3 : at];
  const whole = Math.floor(seconds / size);
  const [below, smaller] = units[at + 1] ?? [0, ""];
  const more = below ? Math.floor((seconds % size) / below) : 0;
  return whole < 10 && more ? `${whole} ${unit} ${more} ${smaller}` : `${whole} ${unit}`;
}

// Keys: / finds, g and a letter goes, j and k walk through rows, ? lists them

let went = 0;

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const page = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
  if (Date.now() - went < 1500 && page) {
    went = 0;
    page.click();
  } else if (event.key === "g") {
    went = Date.now();
  } else if (event.key === "/") {
    event.preventDefault();
    document.querySelector("#find")?.select();
  } else if (event.key === "?") {
    keys();
  } else if (event.key === "p") {
    if (body.dataset.livePage !== undefined) pause(!paused);
  } else if (event.key === "j" || event.key === "k") {
    walk(event.key === "j" ? 1 : -1);
  }
}

function typing(target) {
  return target.closest?.("input, textarea, select, [contenteditable]");
}

function walk(by) {
  const links = [...document.querySelectorAll("main tbody tr > :first-child a, main .wrong a.button")];
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by]?.focus();
}

function keys() {
  let dialog = document.querySelector("dialog#keys");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "keys";
    dialog.setAttribute("aria-labelledby", "keys-title");
    const title = Object.assign(document.createElement("h2"), { id: "keys-title", textContent: "Keys" });
    const list = document.createElement("dl");
    const rows = [["/", "find an entry"], ["j k", "next, previous row"], ["p", "pause live updates"], ["?", "this list"], ["Esc", "leave a field, close this"]];
    for (const link of document.querySelectorAll("nav a[data-key]")) rows.push([`g ${link.dataset.key}`, link.textContent]);
    for (const [key, does] of rows) {
      const term = document.createElement("dt");
      term.append(Object.assign(document.createElement("kbd"), { textContent: key }));
      list.append(term, Object.assign(document.createElement("dd"), { textContent: does }));
    }
    const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close" });
    close.addEventListener("click", () => dialog.close());
    dialog.append(title, list, close);
    body.append(dialog);
  }
  dialog.showModal();
}

// What is there only with JavaScript

function ready(part) {
  for (const button of part.querySelectorAll("[data-copy], [data-keys]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button");
  if (button?.dataset.keys !== undefined) keys();
  if (!button?.dataset.copy) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});
document.addEventListener("keydown", pressed);
document.addEventListener("visibilitychange", soon);
ready(document);
tick();
setInterval(tick, 1000);
if (body.dataset.livePage !== undefined) listen();
