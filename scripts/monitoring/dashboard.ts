import type { DataSourceRef } from '@grafana/grafana-foundation-sdk/common';
import {
  GraphDrawStyle,
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  SortOrder,
  StackingConfigBuilder,
  StackingMode,
  TooltipDisplayMode,
  VizLegendOptionsBuilder,
  VizTooltipOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common';
import {
  type Dashboard,
  DashboardBuilder,
  DashboardCursorSync,
  DashboardLinkBuilder,
  DashboardLinkType,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  VariableRefresh,
  VariableSort,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatPanelBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TimeseriesPanelBuilder } from '@grafana/grafana-foundation-sdk/timeseries';

/** A query of a panel and the legend of its series, such as `{{cluster}}`. */
export type Query = readonly [expr: string, legend: string];

/** A panel: a number, or series over time. */
export interface Panel {
  readonly title: string;
  readonly description?: string;
  readonly kind: 'number' | 'lines' | 'stacked';
  /** Unit as Grafana names it, such as `s`, `bytes`, `reqps`, `percentunit`, `short`. */
  readonly unit: string;
  readonly queries: readonly Query[];
}

/** A variable whose values are those of a label. */
export interface LabelVariable {
  readonly name: string;
  readonly label: string;
  /** A query of Grafana's, such as `label_values(metric, label)`. */
  readonly query: string;
}

/** A dashboard: rows of panels. */
export interface DashboardDraft {
  /** Name of its file and the end of its uid. */
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly variables: readonly LabelVariable[];
  readonly rows: readonly { readonly title: string; readonly panels: readonly Panel[] }[];
}

const TAG = 'engine-gateway';
const source: DataSourceRef = { type: 'prometheus', uid: '$datasource' };
/** Width of a dashboard, and of its panels: six numbers or three graphs beside each other. */
const WIDTHS = { number: 4, graph: 8 };
const HEIGHTS = { number: 4, graph: 8 };

/** The dashboard in the form that Grafana imports. */
export function builtDashboard(draft: DashboardDraft): Dashboard {
  const builder = new DashboardBuilder(`Engine Gateway / ${draft.title}`)
    .uid(`engine-gateway-${draft.name}`)
    .description(draft.description)
    .tags([TAG])
    .refresh('30s')
    .time({ from: 'now-1h', to: 'now' })
    .timezone('browser')
    .tooltip(DashboardCursorSync.Crosshair)
    .link(
      new DashboardLinkBuilder('Engine Gateway')
        .type(DashboardLinkType.Dashboards)
        .tags([TAG])
        .keepTime(true)
        .includeVars(true),
    )
    .withVariable(new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus'));
  for (const { name, label, query } of draft.variables) {
    builder.withVariable(
      new QueryVariableBuilder(name)
        .label(label)
        .datasource(source)
        .query(query)
        .refresh(VariableRefresh.OnTimeRangeChanged)
        .sort(VariableSort.AlphabeticalAsc)
        .multi(true)
        .includeAll(true)
        .allValue('.*'),
    );
  }
  for (const { title, panels } of draft.rows) {
    builder.withRow(new RowBuilder(title));
    for (const panel of panels) builder.withPanel(panel.kind === 'number' ? numberPanel(panel) : graphPanel(panel));
  }
  return builder.build();
}

const queryOf = ([expr, legend]: Query): DataqueryBuilder => new DataqueryBuilder().expr(expr).legendFormat(legend);

function numberPanel(panel: Panel): StatPanelBuilder {
  const builder = new StatPanelBuilder()
    .title(panel.title)
    .datasource(source)
    .unit(panel.unit)
    .span(WIDTHS.number)
    .height(HEIGHTS.number)
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']));
  if (panel.description !== undefined) builder.description(panel.description);
  for (const query of panel.queries) builder.withTarget(queryOf(query));
  return builder;
}

function graphPanel(panel: Panel): TimeseriesPanelBuilder {
  const isStacked = panel.kind === 'stacked';
  const builder = new TimeseriesPanelBuilder()
    .title(panel.title)
    .datasource(source)
    .unit(panel.unit)
    .span(WIDTHS.graph)
    .height(HEIGHTS.graph)
    .min(0)
    .drawStyle(GraphDrawStyle.Line)
    .fillOpacity(isStacked ? 40 : 5)
    .legend(
      new VizLegendOptionsBuilder()
        .showLegend(true)
        .displayMode(LegendDisplayMode.List)
        .placement(LegendPlacement.Bottom),
    )
    .tooltip(new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi).sort(SortOrder.Descending));
  if (isStacked) builder.stacking(new StackingConfigBuilder().mode(StackingMode.Normal));
  if (panel.description !== undefined) builder.description(panel.description);
  for (const query of panel.queries) builder.withTarget(queryOf(query));
  return builder;
}
