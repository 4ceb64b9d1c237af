// How .ci/run lints the scripts of the pages.

import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    languageOptions: { globals: globals.browser },
    rules: {
      "eqeqeq": "error",
      "no-self-compare": "error",
      "no-shadow": "error",
      "no-unmodified-loop-condition": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
];
