// Before anything is drawn: what was chosen last, if anything was. Without a choice the system decides.
try {
  const chosen = localStorage.getItem("ottla-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing shows what the system prefers.
}
