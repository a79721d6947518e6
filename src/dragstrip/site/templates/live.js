// Puts each round's standings, made and escaped by the server, in place of the last.
"use strict";
const state = document.getElementById("state");
const source = new EventSource(`/events/${encodeURIComponent(state.dataset.race)}`);
source.addEventListener("round", (event) => {
  const told = JSON.parse(event.data);
  document.getElementById("standings").innerHTML = told.html;
  document.body.dataset.rounds = told.rounds;
  state.textContent = told.finished ? `ended: ${told.finished}` : `round ${told.rounds} done`;
  if (told.finished) source.close();
});
source.addEventListener("error", () => { state.textContent = "the server does not answer; trying again"; });
