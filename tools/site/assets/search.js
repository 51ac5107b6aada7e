// Search: looks for all words of the field in the sections of search-index.js, which is loaded when
// the field gets the focus.
(function () {
  const root = document.documentElement.dataset.root;
  const field = document.getElementById("search");
  const results = document.getElementById("results");
  const most = 20; // results
  let loading = false;

  // On a narrow screen the documents come first, so their list is closed.
  if (matchMedia("(max-width: 50rem)").matches) document.querySelector("nav details").open = false;

  function load() {
    if (loading) return;
    loading = true;
    const script = document.createElement("script");
    script.src = root + "search-index.js";
    script.onload = show;
    document.head.append(script);
  }

  // score returns how well a section fits the words; 0 if one of them is missing.
  function score(section, words) {
    const page = section.page.toLowerCase(), heading = section.heading.toLowerCase(), text = section.text.toLowerCase();
    let sum = 0;
    for (const word of words) {
      const times = Math.min(text.split(word).length - 1, 3);
      const found = times + (heading.includes(word) ? 10 : 0) + (page.includes(word) ? 5 : 0);
      if (found === 0) return 0;
      sum += found;
    }
    return sum;
  }

  // excerpt returns the text around the first of the words.
  function excerpt(text, words) {
    const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0);
    const from = Math.max(0, Math.min(...places, text.length) - 60);
    return (from > 0 ? "... " : "") + text.slice(from, from + 200);
  }

  function show() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    results.hidden = words.length === 0;
    if (results.hidden || !window.searchIndex) return;
    const found = window.searchIndex.map((section) => ({ section, score: score(section, words) })).filter((f) => f.score > 0);
    found.sort((a, b) => b.score - a.score);
    results.replaceChildren(...found.slice(0, most).map(({ section }) => {
      const line = document.createElement("p"), a = document.createElement("a");
      a.href = root + section.url;
      a.textContent = section.page === section.heading ? section.page : section.page + ": " + section.heading;
      line.append(a, document.createElement("br"), excerpt(section.text, words));
      return line;
    }));
    if (found.length === 0) results.textContent = "Nothing has all of these words.";
  }

  field.addEventListener("focus", load);
  field.addEventListener("input", () => { load(); show(); });
})();
