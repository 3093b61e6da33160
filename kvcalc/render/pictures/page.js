"use strict";
// Draws every figure from its rows; a control sets a parameter of the figure's pictures and filters its table.
(() => {
  const figures = JSON.parse(document.getElementById("figure-data").textContent);

  const unpack = ({ columns, rows }) => rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));

  const shown = (value, column) => {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return String(value);
    const scaled = value * (column.factor ?? 1);
    const whole = column.digits === undefined && (Math.abs(scaled) >= 1000 || (Number.isInteger(value) && !column.factor));
    const digits = whole ? 0 : column.digits;
    if (digits === undefined) return scaled.toLocaleString("en", { maximumSignificantDigits: 3 });
    return scaled.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };

  function start(root, figure) {
    const sets = { rows: unpack(figure.rows), numbers: unpack(figure.numbers) };
    const state = Object.fromEntries(figure.controls.map((one) => [one.name, one.values[one.at]]));
    const views = figure.specs.map((spec, i) => {
      const view = new vega.View(vega.parse(spec), { renderer: "svg", container: root.querySelectorAll(".view")[i], hover: true });
      view.logLevel(vega.Error);
      for (const { name } of spec.data) if (name in sets) view.data(name, unpack(figure[name]));
      return view;
    });
    const own = views.map((_, i) => new Set(figure.specs[i].signals.map((one) => one.name)));
    const chosen = (set, names) => sets[set].filter((row) => names.every((name) => row[name] === state[name]));

    function table() {
      const body = root.querySelector("tbody");
      if (!body || !figure.table) return;
      const lines = chosen(figure.table.of, figure.table.filter).map((row) => {
        const line = document.createElement("tr");
        for (const column of figure.table.columns) {
          const cell = line.insertCell();
          cell.textContent = shown(row[column.field], column);
          if (column.left) cell.className = "left";
        }
        return line;
      });
      body.replaceChildren(...lines);
    }

    function readout() {
      for (const place of root.querySelectorAll("[data-field]")) {
        const column = figure.readout[Number(place.dataset.field)];
        const row = chosen(sets.numbers.length ? "numbers" : "rows", column.filter)[0];
        place.textContent = row === undefined ? "–" : shown(row[column.field], column);
      }
    }

    function update() {
      views.forEach((view, i) => {
        for (const [name, value] of Object.entries(state)) if (own[i].has(name)) view.signal(name, value);
        view.runAsync();
      });
      table();
      readout();
    }

    for (const control of figure.controls) {
      const input = root.querySelector(`[name="${control.name}"]`);
      const output = input.parentElement.querySelector("output");
      const read = () => {
        const at = input.type === "checkbox" ? Number(input.checked) : Number(input.value);
        state[control.name] = control.values[at];
        if (output) output.textContent = control.labels[at];
        if (input.type === "range") input.setAttribute("aria-valuetext", control.labels[at]);
        update();
      };
      input.addEventListener("input", read);
      if (input.type === "checkbox") input.checked = Boolean(control.at);
      else input.value = control.at;
    }
    update();
    root.dataset.drawn = "";
  }

  for (const [id, figure] of Object.entries(figures)) start(document.getElementById(id), figure);
})();
