// A streamer's page of a test link. What the link lets its bearer do stands in the URL's fragment, which browsers send to
// no server: it goes to ours in a header, and is the key to paste.

import { listenToActions } from "./actions.js";
import { remakeInOwnZone } from "./browserzone.js";
import { say, showRefusals, showSteps, showWhether } from "./checklist.js";
import { pageData, setText } from "./dom.js";
import { day, timeWithUtc } from "./format.js";

const WHOSE = { key: "With the key of this page, from ", address: "From your address, ", perhaps: "From " };
const NO_LINK = "This address is not whole: something is missing behind #. Copy the link again, as it was sent to you.";

const boot = pageData("boot");
const field = (name) => document.getElementById(name);
let latest = null;

async function poll() {
  let waitS = boot.each_s;
  if (!document.hidden) {
    try {
      const response = await fetch(boot.url, {
        headers: { Accept: "application/json", [boot.header]: secret() },
        cache: "no-store",
        credentials: "omit",
      });
      const answer = await response.json();
      if (response.status === 404) return close(answer.detail);
      if (response.ok) update(answer);
      else {
        waitS = Number(response.headers.get("Retry-After")) || waitS;
        say(answer.detail);
      }
    } catch {
      say("The server does not answer. What is shown may have changed.");
    }
  }
  setTimeout(poll, waitS * 1000);
}

/** A header takes no other characters. */
const secret = () => location.hash.slice(1).replace(/[^!-~]/g, "");

function close(words) {
  field("test").hidden = true;
  field("closed").hidden = false;
  setText(field("closed").querySelector("p"), words);
}

function update(progress) {
  latest ??= first(progress);
  showSteps(field("steps"), progress.steps);
  showRefusals(progress.refusals, WHOSE);
  const isOver = progress.is_over;
  const publishes = !isOver && progress.steps.some(({ id, state }) => id === "publish" && state === "good");
  showWhether({ publishes, isOver });
  if (publishes) say("This list goes on by itself.");
  else say(isOver ? "Start streaming again, and the list starts over." : "Waiting for your encoder. This list fills by itself.");
  field("worked").hidden = !progress.steps.some(({ id, state }) => id === "verdict" && state === "good");
}

function first(progress) {
  setText(field("stream"), progress.stream);
  setText(field("server"), progress.server);
  setText(field("key"), secret());
  setText(field("until"), `${day(progress.expires_at)}, ${timeWithUtc(progress.expires_at)}`);
  setText(field("tls"), progress.rtmps_server);
  field("tls-field").hidden = !progress.rtmps_server;
  setText(field("limit"), progress.max_kbps ? `Video and audio bitrate together: below ${progress.max_kbps} kbit/s.` : "");
  field("test").hidden = false;
  return progress;
}

listenToActions();
remakeInOwnZone();
addEventListener("hashchange", () => location.reload());
if (secret()) poll();
else close(NO_LINK);
