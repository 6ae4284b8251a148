// Questions: a dialog with fields, the words of a failure inside it, and for destruction the name to be typed.

import { h, render } from "/dom.js";

let note = () => {};
export const onNote = (f) => {
  note = f;
};

// A reader may look: what changes something is shown, and cannot be pressed. The server refuses it in any case.
let reader = false;
export const setReader = (is) => {
  reader = is;
};
export const isReader = () => reader;

// fields: [{ name, label, type, value, options, required, help, placeholder }]. action(values) returns a promise; its text, if any, is shown.
export function ask({ title, text = [], loss = [], fields = [], confirm, button, action }) {
  const before = document.activeElement;
  const host = document.getElementById("dialogs");
  const dialog = document.createElement("dialog");
  const state = { failure: "", busy: false, ready: !confirm };
  const close = () => {
    dialog.close();
    dialog.remove();
    before?.focus?.();
  };
  const submit = async (event) => {
    event.preventDefault();
    if (state.busy || !state.ready) return;
    const form = event.target;
    const values = {};
    for (const f of fields) {
      const input = form.elements[f.name];
      const value = f.type === "checkbox" ? input.checked : input.value.trim();
      if (value !== "" && value !== false) values[f.name] = value;
    }
    Object.assign(state, { busy: true, failure: "" });
    draw();
    try {
      const words = await action(values);
      close();
      note(typeof words === "string" ? words : `${title}: done`);
    } catch (e) {
      Object.assign(state, { busy: false, failure: e.message });
      draw();
    }
  };
  const field = (f) => {
    const id = `field-${f.name}`;
    const common = { id, name: f.name, required: f.required, "aria-describedby": f.help ? `${id}-help` : undefined };
    const input = f.options
      ? h("select", common, f.options.map((o) => h("option", { value: o, selected: o === f.value }, o || "inherited")))
      : h("input", { ...common, type: f.type || "text", placeholder: f.placeholder, autocomplete: "off", spellcheck: "false", checked: f.type === "checkbox" && !!f.value, value: f.type === "checkbox" ? undefined : f.value });
    return h("div", { class: f.type === "checkbox" ? "field check" : "field", key: f.name }, h("label", { for: id }, f.label), input, f.help && h("p", { class: "quiet", id: `${id}-help` }, f.help));
  };
  const draw = () => {
    render(dialog, h("form", { onsubmit: submit },
      h("h2", { id: "dialog-title" }, title),
      text.map((t) => h("p", null, t)),
      loss.length > 0 && h("div", { class: "loss" }, h("strong", null, "This will be lost:"), h("ul", null, loss.map((l) => h("li", null, l)))),
      fields.map(field),
      confirm && h("div", { class: "field", key: "\u0000confirm" }, h("label", { for: "field-confirm" }, "Type ", h("code", null, confirm), " to confirm"),
        h("input", { id: "field-confirm", name: "confirm", autocomplete: "off", spellcheck: "false", oninput: (e) => { state.ready = e.target.value === confirm; draw(); } })),
      h("p", { class: "failure", role: "alert" }, state.failure),
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: close }, "Cancel"),
        h("button", { type: "submit", class: confirm ? "danger" : "main", disabled: state.busy || !state.ready }, state.busy ? "Working…" : button || title))));
  };
  dialog.setAttribute("aria-labelledby", "dialog-title");
  dialog.addEventListener("cancel", (e) => {
    e.preventDefault();
    close();
  });
  draw();
  host.append(dialog);
  dialog.showModal();
}

// Something to read.
export function show(title, content) {
  const before = document.activeElement;
  const dialog = document.createElement("dialog");
  const close = () => {
    dialog.close();
    dialog.remove();
    before?.focus?.();
  };
  dialog.setAttribute("aria-labelledby", "dialog-title");
  dialog.className = "wide";
  dialog.addEventListener("cancel", (e) => {
    e.preventDefault();
    close();
  });
  render(dialog, h("h2", { id: "dialog-title" }, title), content, h("div", { class: "buttons" }, h("button", { type: "button", class: "main", onclick: close }, "Close")));
  document.getElementById("dialogs").append(dialog);
  dialog.showModal();
}
