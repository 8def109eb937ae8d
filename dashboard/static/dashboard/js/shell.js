// What every page does.

import { listen } from "./dialog.js";
import { listenToKeys } from "./keys.js";
import { watchParts } from "./outages.js";

listen();
listenToKeys();
watchParts();
