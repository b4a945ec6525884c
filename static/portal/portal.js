// What the pages do beyond links, forms and htmx. Everything works without this file; it only makes it smoother.
"use strict";

document.documentElement.classList.add("js");

// Polling pauses while nobody looks, and catches up at once when somebody does.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.detail.elt.hasAttribute("data-poll")) event.preventDefault();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) document.querySelectorAll("[data-poll]").forEach((one) => htmx.trigger(one, "poll-now"));
});

// Questions: a link to a confirm page opens it as a dialog instead.
const dialog = document.getElementById("dialog");
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target === dialog && !dialog.open) dialog.showModal();
});
dialog.addEventListener("close", () => dialog.replaceChildren());
document.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
  const cancel = event.target.closest("[data-close-dialog]");
  if (cancel && dialog.open) {
    event.preventDefault();
    dialog.close();
  }
});

// Whoever pressed a button stays there, although it was disabled meanwhile, or came anew with the answer.
let pressed = null;
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.elt.contains(document.activeElement)) pressed = document.activeElement;
});
function stayThere() {
  if (!pressed || document.activeElement !== document.body) return;
  const there = pressed.isConnected ? pressed : pressed.id && document.getElementById(pressed.id);
  if (there) there.focus({ preventScroll: true });
}
document.addEventListener("htmx:afterRequest", stayThere);
document.addEventListener("htmx:afterSettle", stayThere);

// A long text in a frame of its own can be scrolled by the keyboard, in every browser.
function reachFrames() {
  for (const frame of document.querySelectorAll(".diff, .quote, .reasons, .prose pre"))
    if (frame.scrollHeight > frame.clientHeight || frame.scrollWidth > frame.clientWidth) frame.tabIndex = 0;
}
for (const moment of ["htmx:afterSettle", "toggle"]) document.addEventListener(moment, reachFrames, true);
reachFrames();

// Copy, where it can be done at all: without a secure connection there is only the older way.
for (const button of document.querySelectorAll("[data-copy]")) {
  const label = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.value);
    } catch {
      text.select();
      document.execCommand("copy");
      button.focus();
    }
    button.textContent = "Copied";
    document.getElementById("announce").textContent = "Copied";
    setTimeout(() => (button.textContent = label), 3000);
  });
}

// Toasts go by themselves, unless they tell of an error; notices of a page stay.
function dismissLater(toast) {
  const isError = toast.dataset.toast === "sticky" || toast.classList.contains("notice-error");
  if (!isError) setTimeout(() => toast.remove(), 7000);
}
new MutationObserver((changes) => {
  for (const change of changes)
    for (const node of change.addedNodes) if (node.nodeType === 1) dismissLater(node);
}).observe(document.getElementById("toasts"), { childList: true });
document.addEventListener("click", (event) => {
  event.target.closest("[data-dismiss]")?.closest(".notice")?.remove();
});

// Menus close when one clicks elsewhere or presses Escape.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll(".menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// The list: select all, shift-click a range, and how many are selected.
let lastBox = null;
const boxes = () => [...document.querySelectorAll('input[name="selected"]')];
function showSelection() {
  const chosen = boxes().filter((box) => box.checked).length;
  const all = document.querySelector("[data-select-all]");
  if (all) {
    all.hidden = false;
    all.checked = chosen > 0 && chosen === boxes().length;
    all.indeterminate = chosen > 0 && chosen < boxes().length;
  }
  const count = document.querySelector("[data-bulk-count]");
  if (count) count.textContent = chosen ? `of ${chosen} selected` : "of selected";
  const button = document.querySelector("[data-bulk]");
  if (button) button.disabled = chosen === 0;
}
document.addEventListener("click", (event) => {
  const box = event.target;
  if (box.matches?.("[data-select-all]")) boxes().forEach((one) => (one.checked = box.checked));
  else if (box.matches?.('input[name="selected"]')) {
    const all = boxes();
    if (event.shiftKey && all.includes(lastBox)) {
      const [from, to] = [all.indexOf(lastBox), all.indexOf(box)].sort((a, b) => a - b);
      all.slice(from, to + 1).forEach((one) => (one.checked = box.checked));
    }
    lastBox = box;
  } else return;
  showSelection();
});
document.addEventListener("htmx:afterSettle", showSelection);
showSelection();

// Leaving a form with unsaved text asks first.
let dirty = false;
for (const form of document.querySelectorAll("form[data-guard]")) {
  form.addEventListener("input", () => (dirty = true));
  form.addEventListener("submit", () => (dirty = false));
}
window.addEventListener("beforeunload", (event) => {
  if (dirty) event.preventDefault();
});

// Errors of a form are read first; a lost connection is said, and taken back once it works again.
document.getElementById("error-summary")?.focus();
const alerts = document.getElementById("alerts");
document.addEventListener("htmx:sendError", () => {
  if (alerts.querySelector("[data-offline]")) return;
  const notice = document.createElement("div");
  notice.className = "notice notice-warning";
  notice.dataset.offline = "";
  notice.textContent = "The portal cannot be reached. This page keeps retrying.";
  alerts.append(notice);
});
document.addEventListener("htmx:beforeOnLoad", () => alerts.querySelector("[data-offline]")?.remove());
