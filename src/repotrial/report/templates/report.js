"use strict";
(() => {
  const each = (selector, act) => document.querySelectorAll(selector).forEach(act);
  const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const keep = () => {
    const text = state.toString();
    history.replaceState(null, "", text ? "#" + text : location.href.split("#")[0]);
  };
  const valueOf = (row, column) => {
    const text = row.cells[column].textContent.trim();
    if (text === "") return null;
    const number = Number(text.replaceAll(",", ""));
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const compare = (a, b) => {
    if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
    return typeof a === "number" ? -1 : 1;
  };
  each("table.sortable", (table) => {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    const tools = table.closest(".listing").querySelector(".tools");
    const find = tools.querySelector("input");
    const choice = tools.querySelector("select");
    const said = tools.querySelector("output");
    const place = heads.findIndex((head) => head.textContent === "status");
    const show = () => {
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const fits = words.every((word) => text.includes(word)) &&
          (!choice.value || row.cells[place].textContent.trim() === choice.value);
        row.hidden = !fits;
        shown += fits ? 1 : 0;
      }
      const column = Number(state.get("sort") ?? -1);
      const how = heads[column] ? `sorted by ${heads[column].dataset.name}, ${state.get("way") === "down" ? "descending" : "ascending"}; rows without a value last; errors and invalid runs are sorted like all others` : "in the order of this table's note";
      said.textContent = `${shown} of ${rows.length} runs, ${how}`;
    };
    const sort = () => {
      const column = Number(state.get("sort") ?? -1);
      const sign = state.get("way") === "down" ? -1 : 1;
      heads.forEach((head, number) => head.setAttribute("aria-sort", number === column ? (sign > 0 ? "ascending" : "descending") : "none"));
      const keyed = rows.map((row, number) => [heads[column] ? valueOf(row, column) : number, number, row]);
      keyed.sort((a, b) => (a[0] === null) - (b[0] === null) || (a[0] === null ? 0 : sign * compare(a[0], b[0])) || a[1] - b[1]);
      body.append(...keyed.map((item) => item[2]));
      show();
    };
    heads.forEach((head, number) => {
      head.dataset.name = head.textContent;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const again = state.get("sort") === String(number);
        state.set("way", again && state.get("way") !== "down" ? "down" : "up");
        state.set("sort", String(number));
        keep();
        sort();
      });
    });
    for (const word of [...new Set(rows.map((row) => row.cells[place].textContent.trim()))].sort()) {
      const option = document.createElement("option");
      option.textContent = word;
      choice.append(option);
    }
    const filter = () => {
      for (const [name, value] of [["find", find.value], ["status", choice.value]]) {
        if (value) state.set(name, value); else state.delete(name);
      }
      keep();
      show();
    };
    find.value = state.get("find") ?? "";
    choice.value = state.get("status") ?? "";
    find.addEventListener("input", filter);
    choice.addEventListener("change", filter);
    tools.hidden = false;
    sort();
  });
  const move = (selector, step) => {
    const all = [...document.querySelectorAll(selector)].filter((item) => item.offsetParent !== null);
    const here = all.findIndex((item) => item === document.activeElement);
    const next = all[here < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + step))];
    if (!next) return;
    if (next.tagName === "DETAILS") next.open = true;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const reveal = () => {
    const target = location.hash.includes("=") ? null : document.getElementById(location.hash.slice(1));
    for (let item = target; item; item = item.parentElement) if (item.tagName === "DETAILS") item.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
    const find = document.querySelector(".tools input");
    const acts = {
      "/": () => find && find.focus(),
      ArrowRight: () => move("details.run", 1),
      ArrowLeft: () => move("details.run", -1),
      j: () => move("table.sortable tbody tr, tr.event", 1),
      k: () => move("table.sortable tbody tr, tr.event", -1),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });
})();
