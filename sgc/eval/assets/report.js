const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  button.textContent = name === "dark" ? "☀" : "☾";
}
button.onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
setTheme(prefersDark.matches ? "dark" : "light");
