// What every page does.

import { listen } from "./dialog.js";
import { listenToKeys } from "./shortcuts.js";
import { watchParts } from "./outages.js";
import { tellZone } from "./zone.js";

listen();
listenToKeys();
watchParts();
tellZone({ again: true });
