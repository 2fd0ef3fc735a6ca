"use strict";

// Small tools: elements, numbers and times as people read them.

const $ = (id) => document.getElementById(id);

// An element with attributes and children. Texts become text, never markup.
function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Sets a text only if it is another one: screen readers repeat what changes.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const count = (n) => Math.round(n).toLocaleString("en");

function plural(n, one, many) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// Up to three digits that matter.
function digits(x) {
  if (x >= 100) return x.toFixed(0);
  return Number(x.toPrecision(x >= 10 ? 3 : 2)).toString();
}

// A rate: 12.3k.
function short(n) {
  if (n < 10) return digits(n);
  if (n < 10000) return count(n);
  if (n < 1e6) return `${digits(n / 1e3)}k`;
  return `${digits(n / 1e6)}M`;
}

// A time in nanoseconds.
function time(ns) {
  const s = ns / 1e9;
  if (ns < 1000) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${digits(ns / 1e3)} µs`;
  if (ns < 1e9) return `${digits(ns / 1e6)} ms`;
  if (s < 60) return `${digits(s)} s`;
  const whole = Math.floor(s);
  if (s < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (s < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole / 3600) % 24} h`;
}

// A moment by the clock on the wall, of a program that began at `began` (ms).
function moment(began, ns, fine) {
  const date = new Date(began + ns / 1e6);
  const two = (n, width = 2) => String(n).padStart(width, "0");
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return fine ? `${text}.${two(date.getMilliseconds(), 3)}` : text;
}

const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
