// The console: login, views by the address's hash, and readings that a timer repeats.

import { h, render } from "/dom.js";
import { byTimer, send } from "/call.js";
import { health } from "/health.js";
import { jobs } from "/jobs.js";
import { onTable } from "/table.js";
import { isReader, onNote, setReader, show } from "/dialog.js";
import * as api from "/api.js";
import overview from "/overview.js";
import { pool, pools } from "/pools.js";
import { dataset, datasets, snapshots } from "/datasets.js";
import { exports } from "/exports.js";
import { session, sessions } from "/sessions.js";
import { doctor, history, log, reports, why } from "/insight.js";

const VIEWS = { overview, pools, datasets, snapshots, exports, sessions, why, history, doctor, reports, log };
// Views of one object: not in the list, and marked as a part of another view.
const PARTS = { pool: [pool, "pools"], dataset: [dataset, "datasets"], session: [session, "sessions"] };
// The key of each view.
const KEYS = "1234567890l";
const EVERY_MS = 2000;

const state = { user: null, status: null, data: null, view: null, name: "", arg: "", lost: "", failure: "", turn: 0 };
let timer = 0;

function note(text) {
  const element = document.getElementById("note");
  render(element, text);
  clearTimeout(note.timer);
  note.timer = setTimeout(() => render(element), 6000);
}

function route() {
  const [, name = "", arg = ""] = location.hash.split("/");
  const known = PARTS[name] || [VIEWS[name] || overview, VIEWS[name] ? name : "overview"];
  Object.assign(state, { view: known[0], name: known[1], arg: decode(arg), data: null, failure: "" });
  document.title = `${state.view.title} – Wirepool`;
  read();
}

const decode = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
};

// Reads the state in short and the view's data, then draws; the next reading waits longer if this one was slow.
async function read(byPerson = true) {
  clearTimeout(timer);
  state.turn += 1;
  const { turn, view, arg, data } = state;
  const started = performance.now();
  try {
    const begin = () => Promise.all([api.getSummary(), view.load ? view.load(arg, data) : null]);
    const [status, more] = await (byPerson ? begin() : byTimer(begin));
    if (turn !== state.turn) return;
    Object.assign(state, { status, data: more, lost: "", failure: "" });
  } catch (e) {
    if (turn !== state.turn) return;
    if (e.status === 401) return logIn();
    if (e.status === 0 || e.status >= 502 || !state.status) state.lost = e.message;
    else state.failure = e.message;
  }
  draw();
  const wait = Math.max(view.every || EVERY_MS, 4 * (performance.now() - started));
  if (view.every !== 0 || state.lost) timer = setTimeout(() => (document.hidden ? null : read(false)), wait);
}

// Does something for a person: says how it ended, and reads again.
async function act(what, work) {
  try {
    const words = await work();
    note(typeof words === "string" ? words : `${what}: done`);
  } catch (e) {
    if (e.status === 401) return logIn();
    note(`${what}: ${e.message}`);
  }
  read();
}

function draw() {
  if (!state.user) return;
  const app = document.getElementById("app");
  const { status, view, data } = state;
  const lost = state.lost && h("div", { class: "banner", role: "alert" }, `${state.lost} Trying again.`);
  if (!status) return render(app, lost, h("main", { id: "main" }, h("h1", null, "Wirepool"), h("p", null, "Waiting for the server.")));
  const well = health(status);
  const ready = !view.load || data;
  render(app,
    h("a", { class: "skip", href: "#main", onclick: skip }, "Skip to the content"),
    h("header", null,
      h("span", { class: "brand" }, "Wirepool"),
      h("span", { class: `health ${well.level}`, id: "health", role: "status" }, well.text),
      h("span", { class: "user" }, h("button", { type: "button", onclick: keys }, "Keys"), h("span", { class: "quiet" }, isReader() ? `${state.user}, who may only look` : state.user), h("button", { type: "button", onclick: logOut }, "Log out"))),
    h("nav", { class: "views", "aria-label": "Views" }, Object.entries(VIEWS).map(([name, v], i) => h("a", { href: `#/${name}`, "aria-current": name === state.name ? "page" : undefined, title: `key ${KEYS[i]}` }, v.title))),
    lost,
    jobs(status, act),
    h("main", { id: "main", tabindex: "-1", key: `${state.name}/${state.arg}`, "aria-busy": ready ? undefined : "true" },
      h("h1", null, view.head ? view.head(state.arg) : view.title),
      state.failure && h("p", { class: "failure", role: "alert" }, state.failure),
      ready ? view.view({ status, data, health: well, arg: state.arg, act, read, draw }) : !state.failure && h("p", { class: "quiet" }, "Reading…")));
}

const skip = (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
};

function keys() {
  const rows = [...Object.values(VIEWS).map((v, i) => [KEYS[i], v.title]), ["/", "filter the table"], ["r", "read again"], ["?", "these keys"], ["Esc", "close a dialog"]];
  show("Keys", h("dl", null, rows.map(([key, text]) => [h("dt", null, h("code", null, key)), h("dd", null, text)])));
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches?.("input, select, textarea") || document.querySelector("dialog[open]");
  if (!state.user || typing || event.ctrlKey || event.altKey || event.metaKey) return;
  const number = KEYS.indexOf(event.key);
  if (event.key.length === 1 && number >= 0 && number < Object.keys(VIEWS).length) location.hash = `#/${Object.keys(VIEWS)[number]}`;
  else if (event.key === "/") document.querySelector("input.filter")?.focus();
  else if (event.key === "r") read();
  else if (event.key === "?") keys();
  else return;
  event.preventDefault();
});

function logIn(words = "") {
  clearTimeout(timer);
  state.turn += 1;
  Object.assign(state, { user: null, status: null, data: null });
  render(document.getElementById("dialogs"));
  document.title = "Log in – Wirepool";
  const submit = async (event) => {
    event.preventDefault();
    const { user, password } = event.target.elements;
    try {
      const answer = await send("POST", "/session", { user: user.value, password: password.value });
      password.value = "";
      begin(answer);
    } catch (e) {
      logIn(e.message);
      document.getElementById("password").select();
    }
  };
  render(document.getElementById("app"), h("main", { class: "login card", key: "login" },
    h("h1", null, "Wirepool"),
    h("form", { onsubmit: submit },
      h("div", { class: "field" }, h("label", { for: "user" }, "User"), h("input", { id: "user", name: "user", autocomplete: "username", required: true, autocapitalize: "off", spellcheck: "false" })),
      h("div", { class: "field" }, h("label", { for: "password" }, "Password"), h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password", required: true })),
      h("p", { class: "failure", role: "alert" }, words),
      h("button", { type: "submit", class: "main" }, "Log in"),
      h("p", { class: "quiet" }, "Users are made on the server: ", h("code", null, "wirepool console user add NAME")))));
  if (!words) document.getElementById("user").focus();
}

async function logOut() {
  await send("DELETE", "/session").catch(() => {});
  logIn();
}

function begin({ user, role }) {
  state.user = user;
  setReader(role === "reader");
  route();
}

onTable(draw, () => read());
onNote((text) => {
  note(text);
  read();
});
addEventListener("hashchange", () => {
  if (state.user) route();
});
document.addEventListener("visibilitychange", () => {
  if (state.user && !document.hidden) read(false);
});

send("GET", "/session").then(
  begin,
  (e) => (e.status === 401 ? logIn() : setTimeout(() => location.reload(), EVERY_MS)),
);
