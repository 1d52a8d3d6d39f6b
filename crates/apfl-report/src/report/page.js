// Shows tooltips without the browser's delay.
const tip = document.getElementById("tip");
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest("rect, circle");
  const title = mark && mark.querySelector("title");
  if (title) {
    mark.dataset.tip = title.textContent;
    title.remove();
  }
  tip.hidden = !(mark && mark.dataset.tip);
  if (tip.hidden) return;
  tip.textContent = mark.dataset.tip;
  const place = (at, size, room) => Math.max(4, at + 14 + size > room ? at - 14 - size : at + 14);
  tip.style.left = place(event.clientX, tip.offsetWidth, innerWidth) + "px";
  tip.style.top = place(event.clientY, tip.offsetHeight, innerHeight) + "px";
});
document.addEventListener("pointerleave", () => { tip.hidden = true; });
// A click on a header sorts by its column; another click reverses the order.
for (const head of document.querySelectorAll("table.sortable th")) {
  head.style.cursor = "pointer";
  head.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const column = head.cellIndex;
    const down = head.dataset.down = head.dataset.down === "1" ? "" : "1";
    const key = (row) => row.cells[column].title || row.cells[column].textContent;
    const compare = (a, b) => {
      const [x, y] = [parseFloat(key(a)), parseFloat(key(b))];
      if (column > 0 && (x !== x || y !== y)) return (x !== x) - (y !== y); // gaps last
      return (column > 0 ? x - y : key(a).localeCompare(key(b))) * (down ? -1 : 1);
    };
    body.append(...[...body.rows].sort(compare));
  });
}
