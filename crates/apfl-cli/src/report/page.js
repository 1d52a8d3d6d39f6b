// Tells what is under the pointer at once; without this script the browser does, later.
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
