export const board = "board";
