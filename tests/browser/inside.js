/* What the browser tests look at inside a page. Each function here is called by name, with one argument. */
"use strict";

/* ---- any page ---- */

const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const colours = new Map();

/* A CSS colour as red, green, blue in 0…255 and alpha in 0…1. */
const rgba = (text) => {
  if (!colours.has(text)) {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = text;
    pixel.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
    colours.set(text, [red, green, blue, alpha / 255]);
  }
  return colours.get(text);
};

const over = ([r, g, b, a], below) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a));

const luminance = (colour) => {
  const [r, g, b] = colour.map((c) => (c <= 10.314 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};

const background = (element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    layers.push(rgba(getComputedStyle(at).backgroundColor));
    if (layers.at(-1)[3] === 1) break;
  }
  return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
};

/* The contrast of an element's text with what is behind it, by WCAG 2's formula. */
const contrast = (element, behind = background(element)) => {
  const style = getComputedStyle(element);
  const [r, g, b, alpha] = rgba(element.closest("svg") ? style.fill : style.color);
  let opacity = alpha;
  for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
  const [low, high] = [luminance(over([r, g, b, opacity], behind)), luminance(behind)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};

const seen = (element) =>
  element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) &&
  element.getBoundingClientRect().width > 1;

const named = (element) =>
  `<${element.localName}${element.id && `#${element.id}`}${element.classList.length ? `.${[...element.classList].join(".")}` : ""}>`;

/* Elements that show text of their own. MathML stands beside each equation for screen readers only. */
const texts = () => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = new Set();
  while (walk.nextNode()) {
    const parent = walk.currentNode.parentElement;
    if (walk.currentNode.data.trim() && !parent.closest("script, style, noscript, option, .katex-mathml")) found.add(parent);
  }
  return [...found].filter(seen);
};

/* One complaint for each kind of text that is hard to read. */
const faintAmong = (elements, behind) => {
  const faults = new Map();
  for (const element of elements) {
    const ratio = contrast(element, behind);
    const kind = `contrast ${ratio.toFixed(2)}: ${named(element)}`;
    if (ratio < 4.5 && !faults.has(kind)) faults.set(kind, `${kind} ${element.textContent.trim().slice(0, 30)}`);
  }
  return [...faults.values()];
};

const faint = () => faintAmong(texts());

/* Browsers print text in its colour, and no background. */
const faintOnPaper = () => faintAmong(texts().filter((element) => element.closest("article")), [255, 255, 255]);

const repeatedIds = () => {
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  return [...new Set(ids.filter((id, i) => ids.indexOf(id) !== i))].map((id) => `id used twice: ${id}`);
};

const tooWide = () => {
  const { scrollWidth } = document.documentElement;
  return scrollWidth > innerWidth ? [`scrolls sideways: ${scrollWidth} px in a window of ${innerWidth} px`] : [];
};

const unnamedImages = () =>
  [...document.querySelectorAll("img")]
    .filter((image) => !image.alt.trim() && !image.closest("[aria-hidden=true]"))
    .map((image) => `image without alt: ${image.getAttribute("src")}`);

const brokenImages = () =>
  [...document.images].filter((image) => !image.naturalWidth).map((image) => `image not shown: ${image.src}`);

/* Equations are rendered, and in KaTeX's fonts, not in what the browser would put in their place. */
const equations = () => {
  const faults = [...document.querySelectorAll(".katex-error")].map((e) => `equation not rendered: ${e.textContent}`);
  for (const element of document.querySelectorAll(".math"))
    if (!element.querySelector(".katex")) faults.push(`equation not rendered: ${element.textContent.trim()}`);
  const families = new Set(
    texts()
      .filter((element) => element.closest(".katex-html"))
      .map((element) => getComputedStyle(element).fontFamily.split(",")[0].replaceAll(/["']/g, "")),
  );
  const loaded = new Set([...document.fonts].filter((face) => face.status === "loaded").map((face) => face.family.replaceAll(/["']/g, "")));
  for (const family of families)
    if (!family.startsWith("KaTeX_") || !loaded.has(family)) faults.push(`equation's font not loaded: ${family}`);
  return faults;
};

const lookOver = () => [
  ...repeatedIds(), ...tooWide(), ...unnamedImages(), ...brokenImages(), ...equations(), ...faint(),
];

/* How bright the page is behind its text, in 0…1, once a change of theme has faded out. */
const brightness = async () => {
  await Promise.allSettled(document.getAnimations().map((animation) => animation.finished));
  return luminance(background(document.querySelector("article")));
};

/* ---- explorers ---- */

const inputsOf = (figure) => [...figure.querySelectorAll(".explorer-controls input")];

/* All that an explorer says at the moment, apart from its picture. */
const state = (id) => {
  const figure = document.getElementById(id);
  const inputs = inputsOf(figure);
  return {
    positions: inputs.map((input) => (input.type === "checkbox" ? Number(input.checked) : Number(input.value))),
    names: inputs.map((input) => input.closest("label").querySelector("span").textContent),
    spoken: inputs.map((input) => input.getAttribute("aria-valuetext")),
    numbers: Object.fromEntries(
      [...figure.querySelectorAll(".explorer-numbers > div")].map((pair) => [
        pair.querySelector("dt").textContent,
        pair.querySelector("dd").textContent,
      ]),
    ),
  };
};

/* What the elements of a group of marks show: their opacities or their texts, in order. */
const marks = ([id, group, what]) => {
  const shown = [];
  for (let i = 0, mark; (mark = document.getElementById(`${id}-${group}-${i}`)); i++)
    shown.push(what === "text" ? mark.textContent.trim() : Number(getComputedStyle(mark.firstElementChild).opacity));
  return shown;
};

const styleOf = (element) => Object.fromEntries([...element.style].map((name) => [name, element.style.getPropertyValue(name)]));

/* Opacities are rounded to thousandths, both in labkit's SVG and in the data that the script sets them from. */
const NEARLY = 0.0015;

const unlike = (drawn, right, where = "") => {
  const path = `${where}/${right.localName}${right.id && `#${right.id}`}`;
  if (drawn.localName !== right.localName) return [`${path}: is ${drawn.localName}`];
  const [style, wanted] = [styleOf(drawn), styleOf(right)];
  const [opacity, wantedOpacity] = [Number(style.opacity ?? 1), Number(wanted.opacity ?? 1)];
  if (Math.abs(opacity - wantedOpacity) > NEARLY) return [`${path}: opacity ${opacity}, not ${wantedOpacity}`];
  if (opacity < NEARLY && wantedOpacity < NEARLY) return []; // neither is seen
  const faults = [];
  for (const name of new Set([...Object.keys(style), ...Object.keys(wanted)]))
    if (name !== "opacity" && style[name] !== wanted[name])
      faults.push(`${path}: ${name} ${style[name]}, not ${wanted[name]}`);
  for (const name of new Set([...drawn.getAttributeNames(), ...right.getAttributeNames()]))
    if (name !== "style" && drawn.getAttribute(name) !== right.getAttribute(name))
      faults.push(`${path}: ${name} ${drawn.getAttribute(name)}, not ${right.getAttribute(name)}`);
  if (drawn.childElementCount !== right.childElementCount)
    return [...faults, `${path}: ${drawn.childElementCount} elements, not ${right.childElementCount}`];
  if (!right.childElementCount && drawn.textContent.trim() !== right.textContent.trim())
    faults.push(`${path}: reads ${drawn.textContent}, not ${right.textContent}`);
  return [...faults, ...[...right.children].flatMap((child, i) => unlike(drawn.children[i], child, path))];
};

/* How the picture on the page differs from the SVG that labkit drew: not at all if it is shipped whole. */
const pictureFaults = ([selector, svg, exact]) => {
  const shown = document.querySelectorAll(`${selector} svg`);
  if (shown.length !== 1) return [`${shown.length} pictures`];
  if (!shown[0].getBoundingClientRect().height) return ["the picture is not visible"];
  const parsed = document.createElement("template");
  parsed.innerHTML = svg;
  const right = parsed.content.firstElementChild;
  if (shown[0].isEqualNode(right)) return [];
  const faults = unlike(shown[0], right);
  return faults.length || !exact ? faults.slice(0, 3) : ["the picture is not exactly labkit's"];
};

/* Set every control at once, as a script would. */
const setAll = ([id, positions]) => {
  const figure = document.getElementById(id);
  inputsOf(figure).forEach((input, i) => {
    if (input.type === "checkbox") input.checked = Boolean(positions[i]);
    else input.value = positions[i];
  });
  inputsOf(figure)[0].dispatchEvent(new Event("input", { bubbles: true }));
};
