"use strict";
(() => {
  const told = document.getElementById("told");
  const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  const say = (words) => { if (told) told.textContent = words; };

  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const now = all.indexOf(document.activeElement && document.activeElement.closest("[data-row]"));
    const next = now < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(now + step, 0), all.length - 1);
    all[next].focus();
    all[next].scrollIntoView({ block: "nearest" });
  };
  const follow = (selector) => {
    const link = document.querySelector(selector);
    if (link) location.assign(link.href);
  };
  const open = () => {
    const row = document.activeElement && document.activeElement.closest("[data-row]");
    const link = row && row === document.activeElement && row.querySelector("a[href]");
    if (!link) return false;
    const fold = row.querySelector("details");
    if (fold) fold.open = !fold.open; else location.assign(link.href);
    return true;
  };
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    ArrowLeft: () => follow("a[rel=prev]"),
    ArrowRight: () => follow("a[rel=next]"),
    "/": () => document.querySelector("[data-search]")?.focus(),
    "1": () => press("1"), "2": () => press("2"), "3": () => press("3"),
  };
  const press = (key) => document.querySelector(`[data-key="${key}"]`)?.click();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const busy = event.target.closest("input, select, textarea");
    if (busy) {
      if (event.key === "Escape") busy.blur();
      return;
    }
    if (event.key === "Enter") {
      if (open()) event.preventDefault();
      return;
    }
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("form[role=search] select")) event.target.form.requestSubmit();
  });
  // An address without empty fields can be read and passed on.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "get") return;
    for (const field of event.target.elements) if (field.name && !field.value) field.disabled = true;
  });

  // Minutes of a label count by themselves, until a person writes them.
  const minutes = document.querySelector("[data-minutes]");
  if (minutes) {
    const began = Date.now();
    const timer = setInterval(() => { minutes.value = String(Math.ceil((Date.now() - began) / 60000)); }, 15000);
    minutes.addEventListener("input", () => clearInterval(timer));
  }

  const room = document.body.dataset.live;
  if (!room) return;
  let due = false;
  let asking = false;
  const swap = async () => {
    if (asking) { due = true; return; }
    asking = true;
    try {
      const answer = await fetch(location.pathname + location.search, { credentials: "same-origin" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const old of document.querySelectorAll("[data-swap]")) {
        // What a person is writing or reading in stays as it is.
        if (old.contains(document.activeElement) && document.activeElement.closest("form")) continue;
        const found = fresh.getElementById(old.id);
        if (!found || found.innerHTML === old.innerHTML) continue;
        const focused = document.activeElement && old.contains(document.activeElement) ? document.activeElement.id : "";
        const opened = [...old.querySelectorAll("details[open]")].map((item) => item.closest("[id]")?.id);
        old.replaceWith(found);
        for (const id of opened) {
          const fold = id && id !== found.id && document.getElementById(id)?.querySelector("details");
          if (fold) fold.open = true;
        }
        if (focused) document.getElementById(focused)?.focus();
      }
      document.title = fresh.title;
    } finally {
      asking = false;
      if (due) { due = false; swap(); }
    }
  };
  const source = new EventSource(`/live?room=${encodeURIComponent(room)}`);
  source.addEventListener("changed", (event) => {
    const facts = JSON.parse(event.data);
    say(facts.words);
    swap();
  });
  source.addEventListener("error", () => say("The server does not answer; what is shown may be old."));
  source.addEventListener("open", () => say("live"));
})();
