/** Colors of the charts, as CSS variables, for light and for dark. */
export const lightColors = `
--bg:#f6f7f9;--card:#ffffff;--fg:#1c2430;--muted:#5a6575;--grid:#dde2e9;--on-bar:#16202c;--mark:#37404d;
--stage:#bcd0f2;--tier:#a9ddc9;--leaving:#a8d0f5;--blocked:#f2a99f;--paused:#d6cdf0;--drained:#f3d79b;--returning:#a9ddc9;--inprogress:#a8d0f5;--failed:#e9897d;--waiting:#b9c2ce;
--leaving-line:#2672c4;--blocked-line:#c43a2b;--returning-line:#1a8a62;--failed-line:#a01f12;--waiting-line:#6d7787;
`;

export const darkColors = `
--bg:#12161c;--card:#1b212a;--fg:#e4e9f0;--muted:#9aa6b5;--grid:#323b47;--on-bar:#f2f5f9;--mark:#d9dfe7;
--stage:#3b5688;--tier:#246b55;--leaving:#2b5f93;--blocked:#97392f;--paused:#5b4c8f;--drained:#7d6118;--returning:#246b55;--inprogress:#2b5f93;--failed:#b23a2d;--waiting:#4a5462;
--leaving-line:#6ab0f3;--blocked-line:#f08678;--returning-line:#58c79f;--failed-line:#ff6f5e;--waiting-line:#a3aebd;
`;

/** The style of the page. Its digest is in the Content-Security-Policy of the page, so the markup has no styles of its own. */
export const pageStyle = `
:root{color-scheme:light dark;${lightColors}}
@media screen and (prefers-color-scheme:dark){:root{${darkColors}}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
main,footer{max-width:1080px;margin:0 auto;padding:0 20px}
header{padding:28px 0 8px}
header p{margin:2px 0;color:var(--muted)}
header .state{color:var(--fg)}
.kind{font-size:13px}
h1{margin:0;font-size:28px;line-height:1.2}
h2{margin:0 0 2px;font-size:18px}
section{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:16px 18px;margin:16px 0}
.axis,.note{margin:0 0 6px;color:var(--muted);font-size:13px}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(118px,1fr));gap:10px;margin:16px 0}
.figures div{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:10px 12px;display:flex;flex-direction:column}
.figures dd{margin:0;font-size:22px;font-weight:600;line-height:1.3}
.figures dt{color:var(--muted);font-size:13px}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;list-style:none;margin:0 0 6px;padding:0;font-size:13px}
.swatch{width:12px;height:12px;vertical-align:-1px}
.chart svg{display:block;width:100%;height:auto}
.chart text{font:12px system-ui,sans-serif}
.narrow{display:none}
.causes{margin:8px 0 0;padding-left:22px}
.causes p{margin:0}
.unknown{margin:4px 0 0;padding-left:20px}
.unknown li{margin:4px 0}
table{width:100%;border-collapse:collapse;font-size:14px}
th{text-align:left;font-weight:600;color:var(--muted);font-size:13px}
th,td{padding:5px 12px 5px 0;vertical-align:top;border-bottom:1px solid var(--grid)}
tbody tr:last-child td{border-bottom:0}
.time{white-space:nowrap;font-variant-numeric:tabular-nums}
footer{color:var(--muted);font-size:13px;padding-bottom:28px}
@media screen and (max-width:700px){
main,footer{padding:0 10px}
section{padding:12px 10px}
.wide{display:none}
.narrow{display:block}
thead{display:none}
table,tbody,tr,td{display:block}
tr{border-bottom:1px solid var(--grid);padding:6px 0}
td{border:0;padding:1px 0}
td:empty{display:none}
td::before{content:attr(data-title)": ";color:var(--muted);font-size:13px}
}
@media print{
body{background:none;font-size:12px}
section,.figures div{break-inside:avoid;border-color:#c4cad3}
section:has(table){break-inside:auto}
tr{break-inside:avoid}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
`;
