const choices = [
  { minutes: 15, label: '15 min', name: 'the last 15 minutes' },
  { minutes: 60, label: '1 h', name: 'the last hour' },
  { minutes: 240, label: '4 h', name: 'the last 4 hours' },
  { minutes: 1440, label: '24 h', name: 'the last 24 hours' },
  { minutes: 10_080, label: '7 d', name: 'the last 7 days' },
  { minutes: 43_200, label: '30 d', name: 'the last 30 days' },
] as const;

/** Choices of the range picker; ranges longer than the retention are disabled. @param keptHours null if unknown */
export function ranges(keptHours: number | null) {
  return choices.map(({ minutes, label }) => ({
    value: String(minutes),
    label,
    // One range is always available, even with a short retention.
    disabled: keptHours !== null && minutes > Math.max(1, keptHours) * 60,
  }));
}

export function retentionText(keptHours: number): string {
  if (keptHours < 1) return 'Queries are deleted within two hours.';
  const [days, hours] = [Math.floor(keptHours / 24), keptHours % 24];
  const count = (number: number, unit: string) => (number === 0 ? [] : [`${number} ${unit}${number === 1 ? '' : 's'}`]);
  return `Queries are kept for ${[...count(days, 'day'), ...count(hours, 'hour')].join(' and ')}.`;
}

export function rangeName({ from, to }: { readonly from: number; readonly to: number }): string {
  const minutes = Math.round((to - from) / 60_000);
  return choices.find((choice) => choice.minutes === minutes)?.name ?? `the last ${minutes} minutes`;
}
