// Values as text.

// Control characters, and characters that turn or hide text, become visible.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export const visible = (text) => text.replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

const scaled = (value, base, units) => {
  let at = 0;
  while (Math.abs(value) >= base && at < units.length - 1) {
    value /= base;
    at += 1;
  }
  const digits = at === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[at]}`.trim();
};

export const bytes = (n) => scaled(n || 0, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
export const count = (n) => (Math.abs(n) < 10 && n % 1 ? n.toFixed(1) : scaled(Math.round(n || 0), 1000, ["", "k", "M", "G"]));
export const rate = (n) => `${count(n)}/s`;
export const byteRate = (n) => `${bytes(n)}/s`;
export const percent = (n) => `${n > 0 && n < 10 ? n.toFixed(1) : Math.round(n)} %`;
export const micros = (us) => (us < 1000 ? `${us < 10 ? us.toFixed(1) : Math.round(us)} µs` : us < 1e6 ? `${(us / 1000).toFixed(us < 1e4 ? 2 : 1)} ms` : `${(us / 1e6).toFixed(2)} s`);
export const plural = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export const when = (ms) => (ms ? new Date(ms).toISOString().slice(0, 19).replace("T", " ") : "–");
export const days = (n) => (n > 3650 ? "more than 10 years" : n > 730 ? `${Math.round(n / 365)} years` : `${Math.round(n)} days`);
