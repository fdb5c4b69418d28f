"use strict";
(() => {
  const each = (selector, act, root = document) => root.querySelectorAll(selector).forEach(act);
  const make = (tag, words, kind) => {
    const made = document.createElement(tag);
    made.textContent = words;
    if (kind) made.type = kind;
    return made;
  };
  // What a reader chose stands in the address: after # as name=value pairs, with the place as `at`.
  const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const keep = () => {
    const text = state.toString();
    history.replaceState(null, "", text ? "#" + text : location.href.split("#")[0]);
  };
  const put = (name, value) => {
    if (value) state.set(name, value); else state.delete(name);
    keep();
  };
  const splitWords = (field) => field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const hold = (element, words) => {
    const text = element.textContent.toLowerCase();
    return words.every((word) => text.includes(word));
  };

  // Tables of runs: sorted, filtered.
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
  each("table.sortable", (table, place) => {
    const own = (name) => (place ? `${name}${place}` : name);
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    const names = heads.map((head) => head.textContent);
    const status = names.indexOf("status");
    const tools = table.closest(".listing").querySelector(".tools");
    const find = tools.querySelector("input");
    const choice = tools.querySelector("select");
    const said = tools.querySelector("output");
    const column = () => Number(state.get(own("sort")) ?? -1);
    const isDown = () => state.get(own("way")) === "down";
    const show = () => {
      const words = splitWords(find);
      let shown = 0;
      for (const row of rows) {
        row.hidden = !(hold(row, words) && (!choice.value || row.cells[status].textContent.trim() === choice.value));
        shown += row.hidden ? 0 : 1;
      }
      const how = heads[column()] ? `sorted by ${names[column()]}, ${isDown() ? "descending" : "ascending"}; rows without a value last; errors and invalid runs are sorted like all others` : "in the order that the note below names";
      said.textContent = `${shown} of ${rows.length} runs, ${how}`;
    };
    const sort = () => {
      const sign = isDown() ? -1 : 1;
      heads.forEach((head, number) => head.setAttribute("aria-sort", number === column() ? (sign > 0 ? "ascending" : "descending") : "none"));
      const keyed = rows.map((row, number) => [heads[column()] ? valueOf(row, column()) : number, number, row]);
      keyed.sort((a, b) => (a[0] === null) - (b[0] === null) || (a[0] === null ? 0 : sign * compare(a[0], b[0])) || a[1] - b[1]);
      body.append(...keyed.map((item) => item[2]));
      show();
    };
    heads.forEach((head, number) => {
      const button = make("button", names[number], "button");
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const isAgain = column() === number;
        put(own("way"), isAgain && !isDown() ? "down" : "up");
        put(own("sort"), String(number));
        sort();
      });
    });
    for (const word of status < 0 ? [] : [...new Set(rows.map((row) => row.cells[status].textContent.trim()))].sort()) choice.append(make("option", word));
    choice.parentElement.hidden = status < 0;
    find.value = state.get(own("find")) ?? "";
    choice.value = state.get(own("status")) ?? "";
    find.addEventListener("input", () => { put(own("find"), find.value); show(); });
    choice.addEventListener("change", () => { put(own("status"), choice.value); show(); });
    tools.hidden = false;
    sort();
  });

  // Lists of turns and events: classes to show and hide, a search.
  each("[data-listing]", (listing) => {
    const name = listing.dataset.listing;
    const items = [...listing.querySelectorAll("[data-class]")];
    const tools = listing.querySelector(".tools");
    const find = tools.querySelector("input");
    const said = tools.querySelector("output");
    const hidden = new Set((state.get(`hide-${name}`) ?? "").split(",").filter(Boolean));
    const show = () => {
      const words = splitWords(find);
      let shown = 0;
      for (const item of items) {
        item.hidden = hidden.has(item.dataset.class) || !hold(item, words);
        shown += item.hidden ? 0 : 1;
      }
      said.textContent = `${shown} of ${items.length} shown`;
    };
    for (const word of [...new Set(items.map((item) => item.dataset.class))]) {
      const label = make("label", `${word} (${items.filter((item) => item.dataset.class === word).length})`);
      const box = make("input", "", "checkbox");
      box.checked = !hidden.has(word);
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(word); else hidden.add(word);
        put(`hide-${name}`, [...hidden].join(","));
        show();
      });
      label.prepend(box, " ");
      tools.insertBefore(label, said);
    }
    find.value = state.get(`find-${name}`) ?? "";
    find.addEventListener("input", () => { put(`find-${name}`, find.value); show(); });
    tools.hidden = false;
    show();
  });

  // Figures: saved as SVG, their numbers as CSV.
  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const readStyle = () => [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
    .map((rule) => rule.cssText).filter((text) => /\.fig|:root/.test(text)).join("\n");
  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  // A cell that no spreadsheet takes for a formula.
  const protect = (text) => (/^[=+@\t\r]/.test(text) || (text[0] === "-" && Number.isNaN(Number(text))) ? `'${text}` : text);
  each("figure", (figure) => {
    const bar = figure.querySelector(".save");
    const drawing = figure.querySelector("svg");
    if (!bar || !drawing) return;
    const saveSvg = make("button", "Save as SVG", "button");
    saveSvg.addEventListener("click", () => {
      const copy = drawing.cloneNode(true);
      copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
      style.textContent = readStyle();
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = figure.querySelector("h3").textContent;
      copy.prepend(title, style);
      save(`${figure.id}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(copy));
    });
    const saveCsv = make("button", "Save numbers as CSV", "button");
    saveCsv.addEventListener("click", () => {
      const rows = [...figure.querySelector("details table").rows];
      const text = rows.map((row) => [...row.cells].map((cell) => quote(protect(cell.textContent.trim()))).join(",")).join("\n");
      save(`${figure.id}.csv`, "text/csv", text + "\n");
    });
    bar.append(saveSvg, " ", saveCsv);
    bar.hidden = false;
  });

  // Keys and places.
  const move = (selector, step) => {
    const all = [...document.querySelectorAll(selector)].filter((item) => item.offsetParent !== null);
    const here = all.findIndex((item) => item === document.activeElement);
    const next = all[here < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + step))];
    if (!next) return;
    if (next.matches("details.run")) next.open = true;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const turn = (step) => {
    const link = document.querySelector(step > 0 ? "a[rel=next]" : "a[rel=prev]");
    if (link) location.assign(link.href); else move("details.run", step);
  };
  const reveal = (name) => {
    const target = name && document.getElementById(name);
    for (let item = target; item; item = item.parentElement) if (item.tagName === "DETAILS") item.open = true;
    if (target) target.scrollIntoView();
  };
  const arrive = () => {
    if (location.hash.includes("=")) return;
    const name = decodeURIComponent(location.hash.slice(1));
    reveal(name);
    // A place does not drop what was chosen.
    if (name && [...state.keys()].some((key) => key !== "at")) put("at", name);
  };
  addEventListener("hashchange", arrive);
  if (state.has("at")) reveal(state.get("at")); else arrive();
  const rows = "table.sortable tbody tr, li.turn, tr.event";
  const keys = {
    "/": () => [...document.querySelectorAll(".tools input[type=search]")].find((field) => field.offsetParent !== null)?.focus(),
    ArrowRight: () => turn(1),
    ArrowLeft: () => turn(-1),
    j: () => move(rows, 1),
    k: () => move(rows, -1),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const busy = event.target.closest("input, select, textarea");
    if (busy && event.key === "Escape") busy.blur();
    if (busy) return;
    if (event.key === "Enter" && event.target.matches("li.turn")) {
      const fold = event.target.querySelector("details");
      if (fold) fold.open = !fold.open;
      return;
    }
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
})();
