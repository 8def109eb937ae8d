// The parts' table stays up to date while the page is open.

import { refreshParts } from "./refresh.js";

const REFRESH_MS = 3000;

setInterval(() => refreshParts(["parts"]), REFRESH_MS);
