const table = document.getElementById("class"), search = document.getElementById("search"), count = document.getElementById("count");
const rows = () => [...table.tBodies];
search.addEventListener("input", () => {
  const wanted = search.value.toLowerCase();
  for (const row of rows()) row.hidden = !row.rows[0].textContent.toLowerCase().includes(wanted);
  count.textContent = rows().filter(row => !row.hidden).length + " shown";
});
for (const [at, head] of [...table.tHead.rows[0].cells].entries()) head.querySelector("button").addEventListener("click", () => {
  const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1, value = row => row.rows[0].cells[at].dataset.value ?? row.rows[0].cells[at].textContent;
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
  table.append(...rows().sort((a, b) => way * value(a).localeCompare(value(b), undefined, {numeric: true})));
});
table.addEventListener("click", event => {
  const name = event.target.closest("button.name");
  if (!name) return;
  const detail = name.closest("tbody").rows[1];
  detail.hidden = !detail.hidden;
  name.setAttribute("aria-expanded", String(!detail.hidden));
});
