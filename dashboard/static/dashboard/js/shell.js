// What every page does.

import { listen } from "./dialog.js";
import { listenToKeys } from "./keys.js";
import { watchParts } from "./outages.js";
import { listenToZone, tellZone } from "./zone.js";

listen();
listenToKeys();
watchParts();
listenToZone();
tellZone({ again: true });
