import "./api.js";
