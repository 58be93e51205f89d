// The official NLWeb client as its README uses it, with its error beside it, which it shows nowhere itself.
import { ChatSearch, useNlWeb } from "@nlweb-ai/search-components";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const asked = new URLSearchParams(location.search);
const config = { endpoint: asked.get("endpoint"), site: asked.get("site") ?? "all", maxResults: 9 };

const SHOWN = { position: "fixed", left: 16, top: 16, zIndex: 2147483647, color: "#b00020", font: "16px sans-serif" };

function App() {
  const nlweb = useNlWeb(config);
  const [searches, setSearches] = useState([]);
  const state = nlweb.loading ? "loading" : nlweb.error ? "failed" : nlweb.query ? "answered" : "idle";
  return (
    <div data-state={state} id="app">
      <ChatSearch
        nlweb={nlweb}
        config={config}
        searches={searches}
        addSearch={(search) => setSearches((all) => [...all, search])}
        addResults={async () => {}}
        startSession={() => setSearches([])}
        endSession={() => setSearches([])}
      />
      <output id="error" style={SHOWN}>{nlweb.error}</output>
      <output id="summary" hidden>{nlweb.summary}</output>
      <output id="raw" hidden>{JSON.stringify(nlweb.results)}</output>
    </div>
  );
}

createRoot(document.getElementById("root")).render(<App />);
