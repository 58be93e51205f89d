"""The part of schema.org's type tree that sites use, as data, with plain words for its types.

``is_a("NewsArticle", "CreativeWork")`` is true; a type that is not in the tree has only itself and ``Thing`` above it,
so an unknown type still filters by its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

# One type per line, two spaces per level; schema.org 28. A type with two parents is listed under both.
_TREE = """
Thing
  Action
  BioChemEntity
  CreativeWork
    Article
      AdvertiserContentArticle
      NewsArticle
        AnalysisNewsArticle
        BackgroundNewsArticle
        OpinionNewsArticle
        ReportageNewsArticle
        ReviewNewsArticle
      Report
      SatiricalArticle
      ScholarlyArticle
        MedicalScholarlyArticle
      SocialMediaPosting
        BlogPosting
          LiveBlogPosting
        DiscussionForumPosting
      TechArticle
        APIReference
    Blog
    Book
      Audiobook
    Clip
    Collection
    Comment
      Answer
      Question
    Conversation
    Course
    CreativeWorkSeason
    CreativeWorkSeries
      BookSeries
      MovieSeries
      Periodical
      PodcastSeries
      TVSeries
      VideoGameSeries
    DataCatalog
    Dataset
    DigitalDocument
    Drawing
    EducationalOccupationalCredential
    Episode
      PodcastEpisode
      RadioEpisode
      TVEpisode
    ExercisePlan
    Game
      VideoGame
    Guide
    HowTo
      Recipe
    HowToDirection
    HowToSection
    HowToStep
    HowToTip
    LearningResource
      Course
      Quiz
    Legislation
    Manuscript
    Map
    MathSolver
    MediaObject
      AudioObject
        Audiobook
      ImageObject
      VideoObject
    Menu
    MenuSection
    Message
    Movie
    MusicComposition
    MusicPlaylist
      MusicAlbum
      MusicRelease
    MusicRecording
    Painting
    Photograph
    Play
    Poster
    Review
      ClaimReview
      CriticReview
      EmployerReview
      UserReview
    Sculpture
    SheetMusic
    ShortStory
    SoftwareApplication
      MobileApplication
      OperatingSystem
      RuntimePlatform
      VideoGame
      WebApplication
    SoftwareSourceCode
    SpecialAnnouncement
    Statement
    Thesis
    VisualArtwork
    WebPage
      AboutPage
      CheckoutPage
      CollectionPage
      ContactPage
      FAQPage
      ItemPage
      MedicalWebPage
      ProfilePage
      QAPage
      SearchResultsPage
    WebPageElement
    WebSite
  Event
    BusinessEvent
    ChildrensEvent
    ComedyEvent
    CourseInstance
    DanceEvent
    DeliveryEvent
    EducationEvent
    EventSeries
    ExhibitionEvent
    Festival
    FoodEvent
    Hackathon
    LiteraryEvent
    MusicEvent
    PerformingArtsEvent
    PublicationEvent
      BroadcastEvent
    SaleEvent
    ScreeningEvent
    SocialEvent
    SportsEvent
    TheaterEvent
    VisualArtsEvent
  Intangible
    Brand
    BroadcastChannel
    DefinedTerm
    DefinedTermSet
    Demand
    ItemList
      BreadcrumbList
      HowToStep
      OfferCatalog
    JobPosting
    Language
    ListItem
    MenuItem
    Occupation
    Offer
      AggregateOffer
      OfferForLease
      OfferForPurchase
    Order
    PropertyValue
    Quantity
    Rating
      AggregateRating
    Reservation
    Role
    Schedule
    Service
      BroadcastService
      CableOrSatelliteService
      FinancialProduct
        BankAccount
        CurrencyConversionService
        InvestmentOrDeposit
        LoanOrCredit
        PaymentCard
        PaymentService
      FoodService
      GovernmentService
      Taxi
      TaxiService
      WebAPI
    StructuredValue
      ContactPoint
        PostalAddress
      GeoCoordinates
      GeoShape
      MonetaryAmount
      NutritionInformation
      OpeningHoursSpecification
      PriceSpecification
        UnitPriceSpecification
      QuantitativeValue
    Trip
      BoatTrip
      BusTrip
      Flight
      TouristTrip
      TrainTrip
    VirtualLocation
  MedicalEntity
    Drug
    MedicalCondition
    MedicalTest
    MedicalTherapy
  Organization
    Airline
    Consortium
    Corporation
    EducationalOrganization
      CollegeOrUniversity
      HighSchool
      MiddleSchool
      Preschool
      School
    FundingScheme
    GovernmentOrganization
    LibrarySystem
    LocalBusiness
      AnimalShelter
      ArchiveOrganization
      AutomotiveBusiness
        AutoBodyShop
        AutoDealer
        AutoRental
        AutoRepair
        AutoWash
        GasStation
        MotorcycleDealer
        MotorcycleRepair
      ChildCare
      Dentist
      DryCleaningOrLaundry
      EmergencyService
        FireStation
        Hospital
        PoliceStation
      EmploymentAgency
      EntertainmentBusiness
        AdultEntertainment
        AmusementPark
        ArtGallery
        Casino
        ComedyClub
        MovieTheater
        NightClub
      FinancialService
        AccountingService
        AutomatedTeller
        BankOrCreditUnion
        InsuranceAgency
      FoodEstablishment
        Bakery
        BarOrPub
        Brewery
        CafeOrCoffeeShop
        Distillery
        FastFoodRestaurant
        IceCreamShop
        Restaurant
        Winery
      GovernmentOffice
        PostOffice
      HealthAndBeautyBusiness
        BeautySalon
        DaySpa
        HairSalon
        HealthClub
        NailSalon
        TattooParlor
      HomeAndConstructionBusiness
        Electrician
        GeneralContractor
        HVACBusiness
        HousePainter
        Locksmith
        MovingCompany
        Plumber
        RoofingContractor
      InternetCafe
      LegalService
        Attorney
        Notary
      Library
      LodgingBusiness
        BedAndBreakfast
        Campground
        Hostel
        Hotel
        Motel
        Resort
          SkiResort
        VacationRental
      MedicalBusiness
        Dentist
        MedicalClinic
        Optician
        Pharmacy
        Physician
      ProfessionalService
      RadioStation
      RealEstateAgent
      RecyclingCenter
      SelfStorage
      ShoppingCenter
      SportsActivityLocation
        BowlingAlley
        ExerciseGym
        GolfCourse
        HealthClub
        PublicSwimmingPool
        SkiResort
        SportsClub
        StadiumOrArena
        TennisComplex
      Store
        AutoPartsStore
        BikeStore
        BookStore
        ClothingStore
        ComputerStore
        ConvenienceStore
        DepartmentStore
        ElectronicsStore
        Florist
        FurnitureStore
        GardenStore
        GroceryStore
        HardwareStore
        HobbyShop
        HomeGoodsStore
        JewelryStore
        LiquorStore
        MensClothingStore
        MobilePhoneStore
        MovieRentalStore
        MusicStore
        OfficeEquipmentStore
        OutletStore
        PawnShop
        PetStore
        ShoeStore
        SportingGoodsStore
        TireShop
        ToyStore
        WholesaleStore
      TelevisionStation
      TouristInformationCenter
      TravelAgency
    MedicalOrganization
      Dentist
      DiagnosticLab
      Hospital
      MedicalClinic
      Pharmacy
      Physician
      VeterinaryCare
    NGO
    NewsMediaOrganization
    OnlineBusiness
      OnlineStore
    PerformingGroup
      DanceGroup
      MusicGroup
      TheaterGroup
    PoliticalParty
    Project
      ResearchProject
    ResearchOrganization
    SportsOrganization
      SportsTeam
    WorkersUnion
  Person
    Patient
  Place
    Accommodation
      Apartment
      CampingPitch
      GatewayServices
      Room
        HotelRoom
        MeetingRoom
      Suite
    AdministrativeArea
      City
      Country
      SchoolDistrict
      State
    CivicStructure
      Airport
      Aquarium
      Beach
      BoatTerminal
      Bridge
      BusStation
      BusStop
      Campground
      Cemetery
      Crematorium
      EducationalOrganization
        CollegeOrUniversity
        School
      EventVenue
      FireStation
      GovernmentBuilding
        CityHall
        Courthouse
        Embassy
      Hospital
      MovieTheater
      Museum
      MusicVenue
      Park
      ParkingFacility
      PerformingArtsTheater
      PlaceOfWorship
        BuddhistTemple
        Church
        HinduTemple
        Mosque
        Synagogue
      Playground
      PoliceStation
      PublicToilet
      RVPark
      StadiumOrArena
      SubwayStation
      TaxiStand
      TrainStation
      Zoo
    Landform
      BodyOfWater
        LakeBodyOfWater
        OceanBodyOfWater
        RiverBodyOfWater
        SeaBodyOfWater
        Waterfall
      Continent
      Mountain
      Volcano
    LandmarksOrHistoricalBuildings
    LocalBusiness
    Residence
      ApartmentComplex
      GatedResidenceCommunity
    TouristAttraction
    TouristDestination
  Product
    DietarySupplement
    Drug
    IndividualProduct
    ProductCollection
    ProductGroup
    ProductModel
    SomeProducts
    Vehicle
      BusOrCoach
      Car
      Motorcycle
      MotorizedBicycle
"""


def _parents() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    path: list[str] = []
    for line in _TREE.strip("\n").splitlines():
        name = line.strip()
        depth = (len(line) - len(name)) // 2
        del path[depth:]
        found.setdefault(name, set()).update(path[-1:])
        path.append(name)
    return MappingProxyType({name: frozenset(above) for name, above in found.items()})


PARENTS: Final = _parents()
_CANONICAL: Final = {name.casefold(): name for name in PARENTS}

# The words people use, to the type they mean. Singular; plurals are made by rule.
_WORDS: Final[Mapping[str, str]] = {
    "recipe": "Recipe", "dish": "Recipe", "product": "Product", "event": "Event", "place": "Place",
    "restaurant": "Restaurant", "cafe": "CafeOrCoffeeShop", "café": "CafeOrCoffeeShop",
    "coffee shop": "CafeOrCoffeeShop", "bakery": "Bakery", "bar": "BarOrPub", "pub": "BarOrPub",
    "hotel": "Hotel", "hostel": "Hostel", "campground": "Campground", "campsite": "Campground",
    "store": "Store", "shop": "Store",
    "museum": "Museum", "park": "Park", "library": "Library", "article": "Article", "book": "Book",
    "blog post": "BlogPosting", "post": "BlogPosting", "movie": "Movie", "film": "Movie",
    "course": "Course", "job": "JobPosting", "concert": "MusicEvent", "festival": "Festival",
    "exhibition": "ExhibitionEvent", "artwork": "VisualArtwork", "work of art": "VisualArtwork",
    "picture": "VisualArtwork", "vet": "VeterinaryCare",
    "doctor": "Physician", "dentist": "Dentist", "person": "Person", "organization": "Organization",
    "company": "Organization", "attraction": "TouristAttraction", "podcast": "PodcastSeries",
    "episode": "Episode", "song": "MusicRecording", "album": "MusicAlbum", "video": "VideoObject",
    "app": "SoftwareApplication", "how-to": "HowTo", "guide": "Guide", "review": "Review",
    "workshop": "EducationEvent", "class": "EducationEvent", "sports event": "SportsEvent",
    "sporting event": "SportsEvent", "zoo": "Zoo", "trail": "Place",
    "brewery": "Brewery", "winery": "Winery", "theater": "PerformingArtsTheater", "game": "Game",
    "bookstore": "BookStore",
    "bed and breakfast": "BedAndBreakfast", "b&b": "BedAndBreakfast",
    "gallery": "ArtGallery", "news": "NewsArticle", "page": "WebPage",
    "place to eat": "FoodEstablishment", "somewhere to eat": "FoodEstablishment", "where to eat": "FoodEstablishment",
    "eatery": "FoodEstablishment", "place to stay": "LodgingBusiness", "somewhere to stay": "LodgingBusiness",
    "where to stay": "LodgingBusiness", "somewhere to sleep": "LodgingBusiness", "place to sleep": "LodgingBusiness",
    "accommodation": "LodgingBusiness", "lodging": "LodgingBusiness", "inn": "LodgingBusiness",
    "bookshop": "BookStore", "pharmacy": "Pharmacy", "florist": "Florist", "gym": "ExerciseGym", "spa": "DaySpa",
    "beach": "Beach", "cinema": "MovieTheater", "movie theater": "MovieTheater", "theatre": "PerformingArtsTheater",
    "vacancy": "JobPosting", "ice cream shop": "IceCreamShop", "grocery store": "GroceryStore",
    "supermarket": "GroceryStore", "cottage": "LodgingBusiness", "holiday cottage": "LodgingBusiness",
    "holiday home": "LodgingBusiness", "cabin": "LodgingBusiness", "car": "Car", "vehicle": "Vehicle",
    "hardware store": "HardwareStore", "music venue": "MusicVenue",
}  # fmt: skip
_IRREGULAR: Final = {"dishes": "dish", "people": "person", "libraries": "library", "classes": "class",
                     "bakeries": "bakery", "breweries": "brewery", "wineries": "winery",
                     "galleries": "gallery", "companies": "company", "places to eat": "place to eat",
                     "places to stay": "place to stay", "places to sleep": "place to sleep", "eateries": "eatery",
                     "beaches": "beach", "pharmacies": "pharmacy", "vacancies": "vacancy"}  # fmt: skip

TYPE_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    dict(_WORDS)
    | {f"{word}s": kind for word, kind in _WORDS.items() if not word.endswith(("s", "y", "h"))}
    | {plural: _WORDS[singular] for plural, singular in _IRREGULAR.items()}
)


# What also counts where hardly anything is of the type itself: "restaurants" are cafés and pubs, too.
WIDER: Final[Mapping[str, str]] = MappingProxyType({"Restaurant": "FoodEstablishment", "Hotel": "LodgingBusiness"})


def bare(name: str) -> str:
    """``https://schema.org/Recipe`` and ``schema:Recipe`` as ``Recipe``."""
    return name.rstrip("/").rsplit("/", 1)[-1].rsplit("#", 1)[-1].rsplit(":", 1)[-1]


def named(word: str) -> str:
    """The type that a word or a type's name in any case means; an unknown one is kept as it is."""
    name = bare(word.strip())
    lower = name.casefold()
    return _CANONICAL.get(lower) or TYPE_WORDS.get(lower) or _CANONICAL.get(lower.replace(" ", "")) or name


@cache
def ancestors(name: str) -> frozenset[str]:
    """The type and all above it."""
    above = {name, "Thing"}
    for parent in PARENTS.get(name, ()):
        above |= ancestors(parent)
    return frozenset(above)


def lineage(types: Iterable[str]) -> frozenset[str]:
    """Every type that something of these types is."""
    return frozenset().union(*(ancestors(name) for name in types))


def is_a(name: str, of: str) -> bool:
    return of in ancestors(name)
