// The page of the log-in: the first that comes to be made knows the browser's time zone.

import { tellZone } from "./zone.js";

tellZone();
