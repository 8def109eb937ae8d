// What every page does.

import { listen } from "./dialog.js";
import { watchParts } from "./outages.js";

listen();
watchParts();
