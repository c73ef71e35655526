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

// Plotly writes into what it is given; a figure's own values stay as they are.
function layout(figure) {
  const own = structuredClone(figure.layout);
  return {
    ...own,
    xaxis: axis(own.xaxis),
    yaxis: axis(own.yaxis),
    // The label of the longest bar stands right of the axis.
    margin: { l: 8, r: own.barmode ? 64 : 14, t: 8, b: 8 },
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
  const config = { responsive: true, displayModeBar: false, doubleClick: false };
  for (const figure of figures) {
    Plotly.react(figure.name, figure.traces, layout(figure), config);
  }
}

// The ticks are chosen for the whole of a figure; a part of it may have none of them.
function chooseTicks(figure, change) {
  const zoomed = ["xaxis", "yaxis"].filter((name) => `${name}.range[0]` in change);
  const update = {};
  for (const name of zoomed.filter((name) => figure.layout[name].type !== "category")) {
    update[`${name}.tickmode`] = "auto";
    update[`${name}.ticksuffix`] = figure.layout[name].type === "log" ? " s" : "";
    update[`${name}.tickformat`] = figure.layout[name].ticktext[0].endsWith("%") ? ".0%" : "";
  }
  if (Object.keys(update).length) {
    Plotly.relayout(figure.name, update);
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
for (const figure of figures) {
  const drawn = document.getElementById(figure.name);
  drawn.on("plotly_relayout", (change) => chooseTicks(figure, change));
  drawn.on("plotly_doubleclick", draw);
}
