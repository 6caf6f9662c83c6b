"use strict";
(function () {
  // What happened can be read from outside: <html data-drawn="57" data-errors="0">.
  var root = document.documentElement.dataset;
  root.drawn = "0";
  root.errors = "0";
  window.addEventListener("error", function () { root.errors = String(Number(root.errors) + 1); });
  window.addEventListener("unhandledrejection", function () { root.errors = String(Number(root.errors) + 1); });

  var plots = Array.prototype.slice.call(document.querySelectorAll(".plot"));

  var figures = {};

  // plotly.js and what it draws come packed.
  function unpack(id) {
    var text = document.getElementById(id).textContent;
    var packed = Uint8Array.from(atob(text), function (char) { return char.charCodeAt(0); });
    var stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }

  // The page's policy knows the checksum of plotly.js, so that nothing else runs in its place.
  function load() {
    return Promise.all([unpack("plotly"), unpack("figures")]).then(function (texts) {
      var script = document.createElement("script");
      script.textContent = texts[0];
      document.head.appendChild(script);
      figures = JSON.parse(texts[1]);
    });
  }

  // Dark and light.

  var button = document.getElementById("theme");

  function ink() {
    var style = getComputedStyle(document.documentElement);
    var colour = function (name) { return style.getPropertyValue(name).trim(); };
    var change = { "font.color": colour("--ink"), "hoverlabel.bgcolor": colour("--paper"), "hoverlabel.font.color": colour("--ink") };
    ["xaxis", "yaxis", "yaxis2"].forEach(function (axis) {
      change[axis + ".gridcolor"] = change[axis + ".linecolor"] = change[axis + ".tickcolor"] = colour("--line");
      change[axis + ".tickfont.color"] = colour("--faint");
    });
    return change;
  }

  function inked(layout) {
    var change = ink();
    Object.keys(change).forEach(function (path) {
      var keys = path.split("."), last = keys.pop(), part = layout;
      if (keys[0].indexOf("axis") > 0 && !layout[keys[0]]) return;
      keys.forEach(function (key) { part = part[key] = part[key] || {}; });
      part[last] = change[path];
    });
    return layout;
  }

  function shade(dark) {
    root.theme = dark ? "dark" : "light";
    if (button) button.setAttribute("aria-pressed", String(dark));
    document.querySelectorAll(".plot").forEach(function (plot) {
      if (plot.layout) Plotly.relayout(plot, inked(plot.layout));
    });
  }

  if (button) button.addEventListener("click", function () { shade(root.theme !== "dark"); });
  shade(window.matchMedia("(prefers-color-scheme: dark)").matches);

  // One crosshair for all curves.

  function follow(event) {
    var axis = event.xaxes && event.xaxes[0];
    var moment = event.xvals && event.xvals[0];
    if (!axis || axis.type !== "date") return;
    document.querySelectorAll(".plot.timed").forEach(function (plot) { point(plot, moment); });
  }

  function point(plot, moment) {
    var hair = plot.querySelector(".hair");
    var axis = plot._fullLayout && plot._fullLayout.xaxis;
    if (!hair || !axis) return;
    var place = axis._offset + axis.d2p(moment);
    hair.style.left = place + "px";
    hair.hidden = moment === null || place < axis._offset || place > axis._offset + axis._length;
  }

  function draw(plot) {
    var figure = figures[plot.id];
    if (plot.clientWidth < 480 && figure.layout.xaxis) figure.layout.xaxis.nticks = 4;
    return Plotly.newPlot(plot, figure.data, inked(figure.layout), { displayModeBar: false, responsive: true }).then(function () {
      if (plot._fullLayout.xaxis && plot._fullLayout.xaxis.type === "date") {
        plot.classList.add("timed");
        plot.appendChild(Object.assign(document.createElement("i"), { className: "hair", hidden: true }));
        plot.on("plotly_hover", follow);
        plot.on("plotly_unhover", function () {
          document.querySelectorAll(".hair").forEach(function (hair) { hair.hidden = true; });
        });
      }
    });
  }

  // Lines of a legend, by mouse and by keyboard; rows that are opened again are drawn in their size.

  function toggle(event) {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    var row = event.target.closest("tr[data-trace]");
    if (row) {
      event.preventDefault();
      var off = row.classList.toggle("off");
      row.setAttribute("aria-pressed", String(!off));
      Plotly.restyle(row.closest(".panel").querySelector(".plot"), { visible: !off }, [Number(row.dataset.trace)]);
    }
  }

  document.addEventListener("click", toggle);
  document.addEventListener("keydown", toggle);
  document.querySelectorAll("details").forEach(function (row) {
    row.addEventListener("toggle", function () {
      row.querySelectorAll(".plot").forEach(function (plot) { if (plot.layout && row.open) Plotly.Plots.resize(plot); });
    });
  });

  // One after the other, so that the page can be read while it draws.
  load().then(function next() {
    var plot = plots.shift();
    if (!plot) {
      root.finished = "yes";
      return;
    }
    draw(plot).then(function () {
      root.drawn = String(Number(root.drawn) + 1);
      setTimeout(next, 0);
    });
  });
})();
