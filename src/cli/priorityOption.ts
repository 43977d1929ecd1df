/** Error for an invalid `--default-priority`. */
export const PRIORITY_MISTAKE = 'error: --default-priority must be a whole number from -2147483648 to 2147483647\n';

/** The option `--default-priority` (`routingRules.defaultPriority`); undefined: absent, null: invalid. */
export function priorityOption(text: string | undefined): number | undefined | null {
  if (text === undefined) return undefined;
  const number = /^-?[0-9]{1,10}$/.test(text) ? Number(text) : Number.NaN;
  return number >= -2_147_483_648 && number <= 2_147_483_647 ? number : null;
}
