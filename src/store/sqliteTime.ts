/**
 * SQL function of our SQLite connections: 1 while a statement may go on; it fails the statement when its time is up.
 * Conditions that are compared row by row without an index ask it.
 */
export const IN_TIME = 'eg_in_time';
