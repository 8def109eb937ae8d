// What every page does.

import { listen } from "./dialog.js";

listen();
