export const url = "/api/";
