"""Names of places, to one spelling and, for larger cities, to coordinates. Written for this project.

It is not a gazetteer: a site's own items take precedence, and this table is used for a city in which none of them is.
"""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt
from typing import Final

from .words import fold

# Postal code and name of states and provinces that addresses abbreviate.
REGIONS: Final[dict[str, str]] = {
    "al": "alabama", "ak": "alaska", "az": "arizona", "ar": "arkansas", "ca": "california", "co": "colorado",
    "ct": "connecticut", "de": "delaware", "dc": "district of columbia", "fl": "florida", "ga": "georgia",
    "hi": "hawaii", "id": "idaho", "il": "illinois", "in": "indiana", "ia": "iowa", "ks": "kansas", "ky": "kentucky",
    "la": "louisiana", "me": "maine", "md": "maryland", "ma": "massachusetts", "mi": "michigan", "mn": "minnesota",
    "ms": "mississippi", "mo": "missouri", "mt": "montana", "ne": "nebraska", "nv": "nevada", "nh": "new hampshire",
    "nj": "new jersey", "nm": "new mexico", "ny": "new york", "nc": "north carolina", "nd": "north dakota",
    "oh": "ohio", "ok": "oklahoma", "or": "oregon", "pa": "pennsylvania", "ri": "rhode island",
    "sc": "south carolina", "sd": "south dakota", "tn": "tennessee", "tx": "texas", "ut": "utah", "vt": "vermont",
    "va": "virginia", "wa": "washington", "wv": "west virginia", "wi": "wisconsin", "wy": "wyoming",
    "bc": "british columbia", "ab": "alberta", "on": "ontario", "qc": "quebec", "mb": "manitoba",
    "sk": "saskatchewan", "ns": "nova scotia", "nb": "new brunswick", "nsw": "new south wales",
}  # fmt: skip
COUNTRIES: Final[dict[str, str]] = {
    "us": "united states", "usa": "united states", "u.s.": "united states", "america": "united states",
    "united states of america": "united states", "uk": "united kingdom", "gb": "united kingdom",
    "great britain": "united kingdom", "britain": "united kingdom", "de": "germany", "deutschland": "germany",
    "fr": "france", "es": "spain", "it": "italy", "nl": "netherlands", "holland": "netherlands", "ca": "canada",
    "mx": "mexico", "jp": "japan", "cn": "china", "in": "india", "br": "brazil", "au": "australia", "ch": "switzerland",
    "at": "austria", "se": "sweden", "no": "norway", "dk": "denmark", "fi": "finland", "pt": "portugal",
    "ie": "ireland", "be": "belgium",
    "pl": "poland", "cz": "czechia", "gr": "greece", "tr": "turkey", "nz": "new zealand",
}  # fmt: skip
NICKNAMES: Final = {"nyc": "new york", "new york city": "new york", "sf": "san francisco", "la": "los angeles",
                    "vegas": "las vegas", "philly": "philadelphia", "münchen": "munich", "wien": "vienna"}  # fmt: skip

# Name, latitude, longitude; two decimals are about a kilometre.
_CITIES = """
boise 43.62 -116.20;nampa 43.54 -116.56;meridian 43.61 -116.39;twin falls 42.56 -114.46;idaho falls 43.49 -112.03
pocatello 42.87 -112.45;coeur d'alene 47.68 -116.78;lewiston 46.42 -117.02;sun valley 43.70 -114.35
mccall 44.91 -116.10;sandpoint 48.28 -116.55;caldwell 43.66 -116.69;eagle 43.70 -116.35;ketchum 43.68 -114.36
seattle 47.61 -122.33;tacoma 47.25 -122.44;spokane 47.66 -117.43;portland 45.52 -122.68;eugene 44.05 -123.09
bend 44.06 -121.31;salt lake city 40.76 -111.89;provo 40.23 -111.66;reno 39.53 -119.81;las vegas 36.17 -115.14
san francisco 37.77 -122.42;oakland 37.80 -122.27;san jose 37.34 -121.89;sacramento 38.58 -121.49
los angeles 34.05 -118.24;san diego 32.72 -117.16;fresno 36.74 -119.79;phoenix 33.45 -112.07;tucson 32.22 -110.97
denver 39.74 -104.99;boulder 40.01 -105.27;colorado springs 38.83 -104.82;albuquerque 35.08 -106.65
santa fe 35.69 -105.94;missoula 46.87 -113.99;billings 45.78 -108.50;bozeman 45.68 -111.04;helena 46.59 -112.04
cheyenne 41.14 -104.82;jackson 43.48 -110.76;dallas 32.78 -96.80;houston 29.76 -95.37;austin 30.27 -97.74
san antonio 29.42 -98.49;oklahoma city 35.47 -97.52;kansas city 39.10 -94.58;omaha 41.26 -95.93
minneapolis 44.98 -93.27;saint paul 44.95 -93.09;chicago 41.88 -87.63;milwaukee 43.04 -87.91;madison 43.07 -89.40
st. louis 38.63 -90.20;indianapolis 39.77 -86.16;detroit 42.33 -83.05;cleveland 41.50 -81.69;columbus 39.96 -83.00
cincinnati 39.10 -84.51;pittsburgh 40.44 -80.00;nashville 36.16 -86.78;memphis 35.15 -90.05;atlanta 33.75 -84.39
new orleans 29.95 -90.07;miami 25.76 -80.19;tampa 27.95 -82.46;orlando 28.54 -81.38;charlotte 35.23 -80.84
raleigh 35.78 -78.64;richmond 37.54 -77.44;washington 38.91 -77.04;baltimore 39.29 -76.61;philadelphia 39.95 -75.17
new york 40.71 -74.01;brooklyn 40.68 -73.94;newark 40.74 -74.17;boston 42.36 -71.06;cambridge 42.37 -71.11
providence 41.82 -71.41;hartford 41.76 -72.69;burlington 44.48 -73.21;albany 42.65 -73.76;buffalo 42.89 -78.88
anchorage 61.22 -149.90;honolulu 21.31 -157.86;toronto 43.65 -79.38;montreal 45.50 -73.57;vancouver 49.28 -123.12
calgary 51.05 -114.07;ottawa 45.42 -75.70;mexico city 19.43 -99.13;london 51.51 -0.13;manchester 53.48 -2.24
edinburgh 55.95 -3.19;glasgow 55.86 -4.25;bristol 51.45 -2.59;dublin 53.35 -6.26;paris 48.86 2.35;lyon 45.76 4.84
marseille 43.30 5.37;madrid 40.42 -3.70;barcelona 41.39 2.17;lisbon 38.72 -9.14;porto 41.15 -8.61;rome 41.90 12.50
milan 45.46 9.19;florence 43.77 11.26;venice 45.44 12.32;naples 40.85 14.27;berlin 52.52 13.40;munich 48.14 11.58
hamburg 53.55 9.99;cologne 50.94 6.96;frankfurt 50.11 8.68;vienna 48.21 16.37;zurich 47.38 8.54;geneva 46.20 6.14
bern 46.95 7.45;basel 47.56 7.59;brussels 50.85 4.35;amsterdam 52.37 4.90;rotterdam 51.92 4.48;copenhagen 55.68 12.57
oslo 59.91 10.75;stockholm 59.33 18.07;helsinki 60.17 24.94;warsaw 52.23 21.01;prague 50.08 14.44
budapest 47.50 19.04;athens 37.98 23.73;istanbul 41.01 28.98;tel aviv 32.09 34.78;cairo 30.04 31.24
nairobi -1.29 36.82;lagos 6.52 3.38;cape town -33.92 18.42;johannesburg -26.20 28.05;dubai 25.20 55.27
mumbai 19.08 72.88;delhi 28.61 77.21;bangalore 12.97 77.59;singapore 1.35 103.82;bangkok 13.76 100.50
hong kong 22.32 114.17;shanghai 31.23 121.47;beijing 39.90 116.41;seoul 37.57 126.98;tokyo 35.68 139.69
kyoto 35.01 135.77;osaka 34.69 135.50;sydney -33.87 151.21;melbourne -37.81 144.96;auckland -36.85 174.76
sao paulo -23.55 -46.63;buenos aires -34.60 -58.38;bogota 4.71 -74.07;lima -12.05 -77.04;santiago -33.45 -70.67
"""
CITIES: Final[dict[str, tuple[float, float]]] = {
    " ".join(words[:-2]): (float(words[-2]), float(words[-1]))
    for entry in _CITIES.replace("\n", ";").split(";")
    if (words := entry.split())
}


def names(text: str, *, kind: str = "") -> tuple[str, ...]:
    """A place's name folded, with the names that its abbreviation stands for. ``kind`` is the address part, if
    known."""
    name = fold(text).strip(" .,")
    if not name:
        return ()
    found = {name: None}
    if kind != "addressCountry" and name in REGIONS:
        found[REGIONS[name]] = None
    if kind != "addressRegion" and name in COUNTRIES:
        found[COUNTRIES[name]] = None
    if kind in ("", "addressLocality") and name in NICKNAMES:
        found[NICKNAMES[name]] = None
    return tuple(found)


def point(name: str) -> tuple[float, float] | None:
    """The coordinates of a city, if it is in the table; "Boise, ID" is Boise."""
    folded = fold(name).strip(" .,")
    for candidate in (folded, folded.split(",")[0].strip()):
        candidate = NICKNAMES.get(candidate, candidate)
        if candidate in CITIES:
            return CITIES[candidate]
    return None


def kilometres(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The distance between two points on the earth."""
    lat1, lon1, lat2, lon2 = map(radians, (*one, *other))
    half = sin((lat2 - lat1) / 2) ** 2 + cos(lat1) * cos(lat2) * sin((lon2 - lon1) / 2) ** 2
    return 12_742.0176 * asin(sqrt(min(1.0, half)))
