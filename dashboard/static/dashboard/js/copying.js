// For pages of the admin, which have no shell: buttons with data-do="copy:<element id>".

import { listenToActions } from "./actions.js";

listenToActions();
