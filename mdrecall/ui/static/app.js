"use strict";
// Small conveniences; every page can be read without them.
