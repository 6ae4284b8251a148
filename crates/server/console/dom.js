// Elements from descriptions: h() describes, render() changes the document to match, and keeps what fits (focus, scrolling, typed text).
// Strings become text nodes and nothing else, with control characters made visible.

import { visible } from "/format.js";

const SVG = "http://www.w3.org/2000/svg";

export const h = (tag, props, ...kids) => ({ tag, props: props || {}, kids: flat(kids) });

const flat = (kids) => kids.flat(9).filter((k) => k !== null && k !== undefined && typeof k !== "boolean");

export const render = (element, ...kids) => reconcile(element, flat(kids));

function reconcile(element, kids) {
  const keyed = new Map();
  for (const node of element.childNodes) if (node.$key !== undefined) keyed.set(node.$key, node);
  let at = element.firstChild;
  for (const kid of kids) {
    const key = kid.props?.key;
    let node = key === undefined ? at : keyed.get(key);
    if (!node || node.$key !== key || node.$tag !== kid.tag) node = create(element, kid, key);
    if (node === at) at = at.nextSibling;
    else element.insertBefore(node, at);
    update(node, kid);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function create(parent, kid, key) {
  if (kid.tag === undefined) return document.createTextNode("");
  const isSvg = kid.tag === "svg" || (parent.namespaceURI === SVG && parent.tagName !== "foreignObject");
  const node = isSvg ? document.createElementNS(SVG, kid.tag) : document.createElement(kid.tag);
  node.$tag = kid.tag;
  node.$key = key;
  node.$props = {};
  return node;
}

function update(node, kid) {
  if (kid.tag === undefined) {
    const text = visible(String(kid));
    if (node.data !== text) node.data = text;
    return;
  }
  const old = node.$props;
  for (const name in old) if (!(name in kid.props)) set(node, name, undefined);
  for (const name in kid.props) if (old[name] !== kid.props[name]) set(node, name, kid.props[name]);
  node.$props = kid.props;
  reconcile(node, kid.kids);
}

function set(node, name, value) {
  if (name === "key") return;
  if (name.startsWith("on")) node[name] = value || null;
  else if (name === "style") for (const [key, text] of Object.entries(value || {})) node.style.setProperty(key, text);
  else if (value === undefined || value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : visible(String(value)));
}
