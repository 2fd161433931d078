// page_stub.js - as much of a browser as page.js needs: elements in a tree, and canvases that note what is drawn.
"use strict";
const drawn = [];
class Style { setProperty() {} }
class Node_ {
  constructor(tag) { this.tag = tag; this.childNodes = []; this.attributes = {}; this.listeners = {}; this.style = new Style(); this.hidden = false; this.parentNode = null; this.own = ""; this.value = ""; }
  get clientWidth() { return 1000; }
  set textContent(text) { this.childNodes = []; this.own = String(text); }
  get textContent() { return this.own + this.childNodes.map(child => typeof child === "string" ? child : child.textContent).join(""); }
  append(...children) { for (const child of children) { if (child instanceof Node_) child.parentNode = this; this.childNodes.push(child instanceof Node_ ? child : String(child)); } }
  replaceChildren(...children) { this.childNodes = []; this.own = ""; this.append(...children); }
  setAttribute(key, value) { this.attributes[key] = String(value); if (key === "value") this.value = String(value); }
  addEventListener(name, call) { (this.listeners[name] = this.listeners[name] || []).push(call); }
  dispatch(name, event = {}) { for (const call of this.listeners[name] || []) call({target: this, preventDefault() {}, ...event}); }
  getBoundingClientRect() { return {left: 0, top: 0, width: 1000, height: 400}; }
  setPointerCapture() {}
  all(test, found = []) { for (const child of this.childNodes) if (child instanceof Node_) { if (test(child)) found.push(child); child.all(test, found); } return found; }
  querySelectorAll(tag) { return this.all(node => node.tag === tag); }
  getContext() {
    const canvas = this;
    canvas.rects = []; canvas.texts = [];
    return {
      setTransform() {}, setLineDash() {}, beginPath() {}, moveTo() {}, lineTo() {}, stroke() {}, strokeRect() {},
      clearRect() { canvas.rects = []; canvas.texts = []; },
      measureText: text => ({width: text.length * 6}),
      fillRect(x, y, width, height) {
        if (![x, y, width, height].every(Number.isFinite)) throw new Error(`a rectangle without a place: ${[x, y, width, height]}`);
        canvas.rects.push([this.fillStyle, x, y, width, height]);
      },
      fillText(text) { canvas.texts.push(text); },
    };
  }
}
const ids = {};
for (const id of ["head", "foot", "tip", "data"]) ids[id] = new Node_("div");
for (const id of ["verdict", "breakdown", "steps", "strip", "tree", "tables", "how"]) { ids[id] = new Node_("section"); ids[id].body = new Node_("div"); ids[id].append(ids[id].body); }
const document = {
  getElementById: id => ids[id],
  querySelector: text => ids[text.split(" ")[0].slice(1)].body,
  createElement: tag => new Node_(tag),
  documentElement: new Node_("html"),
};
const window = {devicePixelRatio: 1};
const innerWidth = 1000, innerHeight = 800;
const getComputedStyle = () => ({getPropertyValue: () => " #111"});
const matchMedia = () => new Node_("media");
const addEventListener = () => {};
const canvasesOf = id => ids[id].querySelectorAll("canvas");
