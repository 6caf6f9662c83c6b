"use strict";
(function () {
  // What happened can be read from outside: <html data-drawn="57" data-errors="0">.
  var root = document.documentElement.dataset;
  root.drawn = "0";
  root.errors = "0";
  window.addEventListener("error", function () { root.errors = String(Number(root.errors) + 1); });
  window.addEventListener("unhandledrejection", function () { root.errors = String(Number(root.errors) + 1); });

  function draw(plot) {
    var figure = JSON.parse(document.getElementById(plot.id + "-data").textContent);
    return Plotly.newPlot(plot, figure.data, figure.layout, { displayModeBar: false, responsive: true });
  }

  function toggle(event) {
    var row = event.target.closest("tr[data-trace]");
    if (row) {
      var off = row.classList.toggle("off");
      Plotly.restyle(row.closest(".panel").querySelector(".plot"), { visible: !off }, [Number(row.dataset.trace)]);
    }
  }

  var plots = Array.prototype.slice.call(document.querySelectorAll(".plot"));
  document.addEventListener("click", toggle);
  // One after the other, so that the page can be read while it draws.
  (function next() {
    var plot = plots.shift();
    if (!plot) {
      root.finished = "yes";
      return;
    }
    draw(plot).then(function () {
      root.drawn = String(Number(root.drawn) + 1);
      setTimeout(next, 0);
    });
  })();
})();
