// Numbers as people read them: units always, as many digits as mean something.
"use strict";
(() => {
  const MISSING = "\u2013";
  const THIN = "\u202f";
  const isMissing = (value) => value === null || value === undefined || Number.isNaN(value);
  const known = (write) => (value) => (isMissing(value) ? MISSING : write(Number(value)));

  const whole = d3.format(",.0f");
  const threeDigits = (value) => {
    const size = Math.abs(value);
    return size >= 100 ? d3.format(",.0f")(value) : size >= 10 ? d3.format(".1f")(value) : d3.format(".2f")(value);
  };

  const count = known(whole);
  const rows = known((value) => `${whole(value)} ${Math.abs(value) === 1 ? "row" : "rows"}`);
  const mean = known((value) => (Number.isInteger(value) ? whole(value) : d3.format(",.1f")(value)));
  const ratio = known(d3.format(",.3f"));
  const factor = known((value) => `${d3.format(",.2f")(value)}×`);
  const kappa = known(threeDigits);
  const percent = known((value) => `${d3.format(".1f")(100 * value)}${THIN}%`);

  const wholePercent = known((value) => `${d3.format(".0f")(100 * value)}${THIN}%`);

  const bytes = known((value) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = 0;
    for (; Math.abs(value) >= 1024 && step + 1 < units.length; ++step) value /= 1024;
    return `${step ? threeDigits(value) : whole(value)}${THIN}${units[step]}`;
  });

  const us = known((value) => {
    const size = Math.abs(value);
    if (size >= 1e6) return `${threeDigits(value / 1e6)}${THIN}s`;
    if (size >= 1e3) return `${threeDigits(value / 1e3)}${THIN}ms`;
    return `${threeDigits(value)}${THIN}µs`;
  });

  // For axes: 65k, 4.2M.
  const short = known((
    value,
  ) => (Math.abs(value) < 1e4 ? d3.format(",~g")(value) : d3.format(".3~s")(value).replace("G", "B")));
  const signed = (write) =>
    known((value) => `${value > 0 ? "+" : value < 0 ? "\u2212" : ""}${write(Math.abs(value))}`);

  megaflux.format = {
    MISSING,
    count,
    rows,
    mean,
    ratio,
    factor,
    kappa,
    percent,
    wholePercent,
    bytes,
    us,
    short,
    signed,
  };
})();
