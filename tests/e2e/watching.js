// Runs in the watch page before its own scripts. `tests/e2e/test_hls_page.py` sets DARKEST and GREY_STEP.

// Errors that hls.js reports.
window.heard = [];
let library;
Object.defineProperty(window, "Hls", {
  get: () => library,
  set: (Hls) => {
    library = class extends Hls {
      constructor(config) {
        super(config);
        window.hls = this;
        this.on(Hls.Events.ERROR, (_, { fatal, details, error }) =>
          window.heard.push({ at: Date.now() / 1000, fatal, details, text: error?.message ?? "" }),
        );
      }
    };
  },
});

// The longest time that the page itself stood still for want of a processor.
const TICK_MS = 50;
window.waitedMs = 0;
let tickAt = performance.now();
setInterval(() => {
  const now = performance.now();
  window.waitedMs = Math.max(window.waitedMs, now - tickAt - TICK_MS);
  tickAt = now;
}, TICK_MS);

// When each grey was first shown, and the media's time of the latest picture.
window.seen = [];
window.furthest = 0;
const canvas = document.createElement("canvas");
canvas.width = canvas.height = 1;
const context = canvas.getContext("2d", { willReadFrequently: true });
let last = null;
const watched = new WeakSet();
new MutationObserver(() => {
  const video = document.getElementById("video");
  if (!video || watched.has(video)) return;
  watched.add(video);
  const shown = (_, { presentationTime }) => {
    context.drawImage(video, 0, 0, 1, 1);
    const y = 16 + (context.getImageData(0, 0, 1, 1).data[1] * 219) / 255;
    window.furthest = Math.max(window.furthest, video.currentTime);
    const grey = Math.round((y - DARKEST) / GREY_STEP);
    if (grey !== last) window.seen.push({ grey, at: (performance.timeOrigin + presentationTime) / 1000 });
    last = grey;
    video.requestVideoFrameCallback(shown);
  };
  video.requestVideoFrameCallback(shown);
}).observe(document, { childList: true, subtree: true });
