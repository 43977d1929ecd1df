import { EvaluationError } from '../evaluation.ts';
import { textBy } from '../values/text.ts';
import { compareByText, Holder } from '../values/value.ts';
import { LibraryClass } from './javaClass.ts';
import { long, MethodTable } from './methodTable.ts';

/** `java.util.Date`: a moment in milliseconds. */
export class JavaDate extends Holder<number> {
  readonly kind = 'date';
}

export const dateMethods = new MethodTable('Date', 'operands').add('getTime', [], (_e, self: JavaDate) =>
  long(BigInt(self.value)),
);
textBy('date', (value) => new Date((value as JavaDate).value).toISOString());
compareByText('date', (value) => String((value as JavaDate).value));

export const dateClass = new LibraryClass('Date', ['date']);
dateClass.constructors
  .add('new', [], (e) => new JavaDate(e.sources.now()), 'time')
  .add('new', ['long'], (_e, _self, time) => new JavaDate(Number(BigInt.asIntN(53, time))));

/** `java.util.Calendar` in the machine's time zone. */
export class JavaCalendar extends Holder<number> {
  readonly kind = 'calendar';
}

const calendarFields: readonly (readonly [name: string, number: number, read: (moment: Date) => number])[] = [
  ['YEAR', 1, (moment) => moment.getFullYear()],
  ['MONTH', 2, (moment) => moment.getMonth()],
  ['DAY_OF_MONTH', 5, (moment) => moment.getDate()],
  ['DAY_OF_WEEK', 7, (moment) => moment.getDay() + 1],
  ['HOUR', 10, (moment) => moment.getHours() % 12],
  ['HOUR_OF_DAY', 11, (moment) => moment.getHours()],
  ['MINUTE', 12, (moment) => moment.getMinutes()],
  ['SECOND', 13, (moment) => moment.getSeconds()],
];

export const calendarClass = new LibraryClass('Calendar', ['calendar']);
for (const [name, number] of calendarFields) calendarClass.field(name, number);
for (const [index, day] of ['SUNDAY', 'MONDAY', 'TUESDAY', 'WEDNESDAY', 'THURSDAY', 'FRIDAY', 'SATURDAY'].entries()) {
  calendarClass.field(day, index + 1);
}
calendarClass.statics.add('getInstance', [], (e) => new JavaCalendar(e.sources.now()), 'time');

export const calendarMethods = new MethodTable('Calendar', 'operands')
  .add('get', ['int'], (_e, self: JavaCalendar, field) => {
    const calendarField = calendarFields.find(([, number]) => number === field);
    if (calendarField === undefined) throw new EvaluationError(`Calendar has no field ${field} here`);
    return calendarField[2](new Date(self.value));
  })
  .add('getTimeInMillis', [], (_e, self: JavaCalendar) => long(BigInt(self.value)));
