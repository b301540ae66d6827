// The chart of the ratios to the floor, drawn by echarts on the server side.

import { digits } from './report.mjs'

const groups = [
  { floor: 'floor', title: 'keep-alive' },
  { floor: 'floor-x16', title: 'pipelined x16' },
  { floor: 'floor-close', title: 'connection per request' }
]

function bars (summaries, scenarios) {
  const byName = new Map(summaries.map((summary) => [summary.name, summary]))
  return groups.flatMap(({ floor }) => scenarios
    .filter((scenario) => scenario.floor === floor && byName.get(scenario.name)?.ratio)
    .map((scenario) => {
      const { title, ratio, userUs, totalUs } = byName.get(scenario.name)
      const user = ratio.median * userUs.median / totalUs.median
      return { title, ratio, user, system: ratio.median - user }
    }))
}

function options (rows, subtitle) {
  const part = (name, color, data, label) => ({ name, type: 'bar', stack: 'cpu', color, data, label, barCategoryGap: '35%' })
  const label = {
    show: true,
    position: 'right',
    formatter: ({ dataIndex }) => {
      const { ratio } = rows[dataIndex]
      return `${digits(ratio.median)} (${digits(ratio.min)}..${digits(ratio.max)})`
    }
  }
  return {
    animation: false,
    backgroundColor: '#fff',
    title: { text: 'CPU time per request, multiples of the floor of the same load', subtext: subtitle, left: 10 },
    legend: { top: 12, right: 20 },
    grid: { left: 250, right: 150, top: 70, bottom: 40 },
    xAxis: { type: 'value', min: 0 },
    yAxis: { type: 'category', inverse: true, data: rows.map(({ title }) => title) },
    series: [
      part('system', '#8fa8c8', rows.map(({ system }) => system)),
      part('user', '#d0743c', rows.map(({ user }) => user), label)
    ]
  }
}

/** Returns the SVG, or throws one sentence when echarts is not installed or nothing was measured. */
export async function drawChart (summaries, scenarios, subtitle) {
  const rows = bars(summaries, scenarios)
  if (rows.length === 0) throw new Error('no ratio was measured, so there is no chart to draw')
  const echarts = await import('echarts').catch((error) => {
    throw new Error('the chart needs the development dependency echarts: npm install', { cause: error })
  })
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: 980, height: 130 + rows.length * 34 })
  chart.setOption(options(rows, subtitle))
  const svg = chart.renderToSVGString()
  chart.dispose()
  return svg
}
