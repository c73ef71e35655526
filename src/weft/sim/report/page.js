"use strict";

const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");

// The page's own colours, so that a figure follows it from light to dark.
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(own) {
  return {
    automargin: true,
    gridcolor: colour("--rule"),
    linecolor: colour("--rule"),
    zeroline: false,
    ...own,
    title: { standoff: 10, font: { size: 13 }, ...own.title },
  };
}

function layout(figure) {
  return {
    ...figure.layout,
    xaxis: axis(figure.layout.xaxis),
    yaxis: axis(figure.layout.yaxis),
    margin: { l: 8, r: 14, t: 8, b: 8 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: colour("--quiet") },
    hoverlabel: {
      bgcolor: colour("--card"),
      bordercolor: colour("--rule"),
      font: { color: colour("--ink") },
      namelength: -1,
    },
    showlegend: false,
    // A finger that drags wants to scroll the page.
    dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom",
  };
}

function draw() {
  const config = { responsive: true, displayModeBar: false };
  for (const figure of figures) {
    Plotly.react(figure.name, figure.traces, layout(figure), config);
  }
}

function showOnlyPressed() {
  document.querySelectorAll(".legend button").forEach((button, run) => {
    const visible = button.getAttribute("aria-pressed") === "true";
    for (const figure of figures) {
      figure.traces[run].visible = visible;
    }
  });
  draw();
}

for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    showOnlyPressed();
  });
}
dark.addEventListener("change", draw);
draw();
