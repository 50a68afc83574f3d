/* Moves the explorers of the book (labkit/explore.py). All numbers and pictures were computed by labkit; this script
   looks them up. Settings are counted with the last control changing fastest. At the end, one word on printing. */
"use strict";

for (const figure of document.querySelectorAll("figure.explorer")) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const inputs = [...figure.querySelectorAll("input")];
  const picture = figure.querySelector(".explorer-picture");
  const numbers = figure.querySelectorAll(".explorer-numbers dd");

  const position = (input) => (input.type === "checkbox" ? Number(input.checked) : Number(input.value));
  const lookUp = ({ by, values }) =>
    values[by.reduce((at, control) => at * data.sizes[control] + position(inputs[control]), 0)];

  const setMarks = (group, { set, ...grid }) =>
    lookUp(grid).forEach((value, i) => {
      const drawn = document.getElementById(`${figure.id}-${group}-${i}`).firstElementChild;
      if (set === "text") drawn.textContent = value;
      else drawn.style.opacity = value;
    });

  const move = () => {
    for (const input of inputs) {
      const name = JSON.parse(input.dataset.names)[position(input)];
      input.closest("label").querySelector("span").textContent = name;
      if (input.type === "range") input.setAttribute("aria-valuetext", name);
    }
    if (data.frames) picture.innerHTML = lookUp(data.frames);
    for (const [group, marks] of Object.entries(data.marks ?? {})) setMarks(group, marks);
    lookUp(data.numbers).forEach((value, i) => {
      if (numbers[i].textContent !== value) numbers[i].textContent = value;
    });
  };

  figure.addEventListener("input", move);
  figure.classList.add("explorer-live"); // shows the controls, which do nothing without this script
  move(); // a browser may have kept the controls' positions over a reload
}

/* Paper is white: a page in dark colours is printed in light ones. */
const page = document.documentElement;
let themeOnScreen;
addEventListener("beforeprint", () => {
  themeOnScreen = page.dataset.theme;
  page.dataset.theme = "light";
});
addEventListener("afterprint", () => {
  page.dataset.theme = themeOnScreen;
});
