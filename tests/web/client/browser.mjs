// A headless Chromium that tells everything it asks for and everything that goes wrong in it.
import { chromium } from "playwright-core";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

export async function browse(executablePath, steps) {
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  const told = { hosts: new Set(), wrong: [] };
  const open = async (options = {}) => {
    const page = await (await browser.newContext(options)).newPage();
    page.setDefaultTimeout(20000);
    page.on("request", (request) => /^(blob|data):/.test(request.url()) || told.hosts.add(new URL(request.url()).host));
    page.on("pageerror", (error) => told.wrong.push(error.message));
    page.on("console", (line) => line.type() === "error" && told.wrong.push(line.text()));
    return page;
  };
  try {
    const result = await steps(open);
    console.log(JSON.stringify({ ...result, hosts: [...told.hosts], wrong: told.wrong }));
  } finally {
    await browser.close();
  }
}
